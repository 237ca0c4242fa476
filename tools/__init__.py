"""What the Makefile calls: the environment, the execution of the chapters, the build."""
