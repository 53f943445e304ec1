// Gives names and roles to what the theme leaves without one, or names unlike its text; axe-core finds these.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.setAttribute("aria-label", button.textContent.replace(/\s+/g, " ").trim());
  }
  for (const button of document.querySelectorAll(".version-switcher__button")) {
    button.removeAttribute("aria-label");
  }
  for (const summary of document.querySelectorAll(".bd-sidebar-primary summary")) {
    summary.setAttribute("aria-label", `Pages of ${summary.closest("li").querySelector("a").textContent.trim()}`);
  }
  for (const element of document.querySelectorAll("dt > dl, th")) {
    if (element.matches("dl") || !element.textContent.trim()) element.setAttribute("role", "presentation");
  }
});
