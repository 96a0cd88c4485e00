(function () {
  const rows = Array.from(document.getElementById("snapshots").tBodies[0].rows);
  const status = document.getElementById("shown");
  const box = document.getElementById("search");
  const haystack = rows.map((row) => row.textContent.toLowerCase().normalize("NFKC"));

  function search() {
    const words = box.value.toLowerCase().normalize("NFKC").split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach(function (row, position) {
      const hit = words.every((word) => haystack[position].includes(word));
      row.hidden = !hit;
      shown += hit ? 1 : 0;
    });
    status.textContent = shown + " of " + rows.length + " snapshots";
  }

  box.addEventListener("input", search);
  document.getElementById("searching").hidden = false;
  search();
})();
