"use strict";
(function () {
  function key(row, column, isNumber) {
    const cell = row.cells[column];
    if (!isNumber) { return cell.textContent.trim(); }
    const text = cell.getAttribute("data-v");
    return text === null ? null : Number(text);
  }

  function sort(table, rows, headers, column) {
    const header = headers[column];
    const isNumber = header.classList.contains("n");
    const before = header.getAttribute("aria-sort");
    const first = isNumber ? "descending" : "ascending";
    const second = isNumber ? "ascending" : "descending";
    const order = before === first ? second : first;
    const sign = order === "ascending" ? 1 : -1;
    const keyed = rows.map((row, position) => [key(row, column, isNumber), position, row]);
    keyed.sort(function (a, b) {
      if (a[0] === null || b[0] === null) {
        return (a[0] === null) - (b[0] === null) || a[1] - b[1];
      }
      const difference = isNumber ? a[0] - b[0] : a[0].localeCompare(b[0], undefined, { numeric: true });
      return sign * difference || a[1] - b[1];
    });
    headers.forEach((other) => other.setAttribute("aria-sort", "none"));
    header.setAttribute("aria-sort", order);
    keyed.forEach((item) => table.tBodies[0].appendChild(item[2]));
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    const rows = Array.from(table.tBodies[0].rows);
    const headers = Array.from(table.tHead.rows[0].cells);
    headers.forEach(function (header, column) {
      const button = document.createElement("button");
      button.type = "button";
      while (header.firstChild) { button.appendChild(header.firstChild); }
      header.appendChild(button);
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(table, rows, headers, column));
    });
  });
})();
