for (const tools of document.querySelectorAll(".tools")) {
  const rows = tools.parentElement.querySelectorAll(".row");
  const text = tools.querySelector("[type=search]");
  const bad = tools.querySelector("[type=checkbox]");
  const shown = tools.querySelector("output");
  const apply = () => {
    const wanted = text.value.trim().toLowerCase();
    let n = 0;
    for (const row of rows) {
      row.hidden = !row.dataset.name.toLowerCase().includes(wanted) || (bad.checked && !("bad" in row.dataset));
      n += !row.hidden;
    }
    shown.value = n === rows.length ? "" : n + " of " + rows.length;
  };
  text.addEventListener("input", apply);
  bad.addEventListener("change", apply);
  tools.hidden = false;
}
