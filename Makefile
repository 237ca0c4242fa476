# Two commands: `make book` builds the book, `make test` runs every test. Both make .venv first if need be.
# Another Python than the newest one found: make book PYTHON=/path/to/python3.12

.PHONY: help book test serve bench prove address lock clean env
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV
export PYTHON
RUN = .venv/bin/python

help:
	@echo "make book   build the book into _build/html"
	@echo "make serve  show it on localhost"
	@echo "make test   run all tests"
	@echo "make bench  measure the speed of the library beside others"
	@echo "make prove  run the long proofs: every input, not a choice of them"
	@echo "make clean  remove what was built; .venv and node_modules stay"
	@echo "CONTRIBUTING.md explains the others."

env:
	@sh tools/python.sh tools/environment.py

book: env
	@$(RUN) -m tools.book

test: env
	-@$(RUN) -m tools.book
	@$(RUN) -m pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

serve: book
	@$(RUN) -m tools.serve

bench: env
	@for script in tests/benchmarks/bench_*.py; do echo "$$script"; $(RUN) $$script $(ARGS) || exit; done

prove: env
	@$(RUN) -m tests.prove $(ARGS)

address: env
	@$(RUN) -m tools.address

lock: env
	@$(RUN) -m tools.npm install --package-lock-only

clean:
	@rm -rf _build
