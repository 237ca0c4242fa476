// The theme makes a box that scrolls sideways reachable by key when the page loads and when its size changes, but not
// when the box appears because something is unfolded. So unfolding counts as a change of size.
(() => {
  const resized = () => requestAnimationFrame(() => window.dispatchEvent(new Event("resize")));
  document.addEventListener("toggle", resized, true);
  document.addEventListener("click", (event) => event.target.closest(".toggle, .toggle-button, .toggle-details__summary") && resized());
})();
