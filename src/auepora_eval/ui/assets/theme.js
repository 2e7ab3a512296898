"use strict";
// Loaded in the head of every page: applies the chosen theme before the page is painted. shell.js changes it.
try {
  const theme = localStorage.getItem("auepora-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: the theme of the system */ }
