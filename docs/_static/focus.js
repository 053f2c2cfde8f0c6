/* Code that is wider than its box is scrolled by the keyboard too. */
"use strict";
addEventListener("load", () => {
  for (const code of document.querySelectorAll("pre")) {
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  }
});
