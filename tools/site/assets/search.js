// find returns the sections that have all words, those with a word in the heading first.
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const found = [];
  for (const s of sections) {
    const heading = s.h.toLowerCase(), all = heading + " " + s.p.toLowerCase() + " " + s.t.toLowerCase();
    if (!words.every((w) => all.includes(w))) continue;
    let rank = heading === words.join(" ") ? 100 : 0;
    for (const w of words) if (heading.includes(w)) rank += 10;
    found.push({section: s, rank: rank});
  }
  found.sort((a, b) => b.rank - a.rank);
  return found.slice(0, 30).map((f) => f.section);
}

// excerpt returns the words around the first one that was looked for.
function excerpt(text, query) {
  const at = text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/).filter(Boolean)[0]);
  const from = Math.max(0, at - 60);
  return (from > 0 ? "…" : "") + text.slice(from, from + 160) + (text.length > from + 160 ? "…" : "");
}

if (typeof document !== "undefined") {
  const box = document.getElementById("query"), list = document.getElementById("results");
  box.addEventListener("input", () => {
    const found = find(box.value);
    list.replaceChildren(...found.map((s) => {
      const item = document.createElement("li"), link = document.createElement("a"), words = document.createElement("p");
      link.href = list.dataset.root + s.u;
      link.textContent = s.h === s.p ? s.p : s.p + ": " + s.h;
      words.textContent = excerpt(s.t, box.value);
      item.append(link, words);
      return item;
    }));
    list.hidden = found.length === 0;
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && document.activeElement !== box) {
      e.preventDefault();
      box.focus();
    }
  });
}
