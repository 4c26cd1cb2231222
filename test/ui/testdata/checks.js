// purserFaults returns what of the present page does not follow WCAG 2.2 AA, as far as a program can see it.
window.purserFaults = () => {
  const faults = [];
  const fault = (text) => faults.push(text);
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const shown = (e) => e.checkVisibility({checkVisibilityCSS: true}) && e.getClientRects().length > 0;
  const brief = (e) => e.outerHTML.slice(0, 120).replace(/\s+/g, ' ');

  // Language, title, landmarks, headings (1.3.1, 2.4.1, 2.4.2, 3.1.1).
  if (document.documentElement.lang !== 'en') fault('no language');
  if (!document.title) fault('no title');
  for (const [selector, count] of [['main', 1], ['body > header', 1], ['body > footer', 1], ['h1', 1]]) {
    if (all(selector).filter(shown).length !== count) fault(`${all(selector).length} of ${selector}, not ${count}`);
  }
  let level = 0;
  for (const h of all('h1, h2, h3, h4').filter(shown)) {
    const now = +h.nodeName[1];
    if (now > level + 1) fault(`heading ${brief(h)} follows one of level ${level}`);
    level = now;
  }
  const skip = document.querySelector('a.skip');
  if (!skip || !document.querySelector(skip.getAttribute('href'))) fault('no way to skip to the content');

  // Each id once; each reference leads to one.
  const ids = new Set();
  for (const e of all('[id]')) {
    if (ids.has(e.id)) fault(`two elements have the id ${e.id}`);
    ids.add(e.id);
  }
  for (const e of all('[aria-labelledby]')) {
    if (!ids.has(e.getAttribute('aria-labelledby'))) fault(`${brief(e)} is named by an element that is not there`);
  }
  for (const e of all('label[for], output[for]')) {
    if (!ids.has(e.htmlFor.toString())) fault(`${brief(e)} is for an element that is not there`);
  }

  // Names of what can be used and of pictures (1.1.1, 2.4.4, 3.3.2, 4.1.2).
  const nameOf = (e) => {
    const label = e.getAttribute('aria-label') || (e.labels && e.labels.length > 0 && e.labels[0].textContent) || e.textContent;
    return (label || '').trim();
  };
  for (const e of all('a[href], button, input:not([type=hidden]), select, summary, [role=region], [role=img], [role=group], [role=toolbar], nav').filter(shown)) {
    if (!nameOf(e)) fault(`${brief(e)} has no name`);
  }
  for (const e of all('svg')) {
    if (!e.getAttribute('aria-label') && !e.closest('[aria-hidden=true]')) fault(`${brief(e)} has no name`);
  }
  for (const e of all('[tabindex]')) {
    if (+e.getAttribute('tabindex') > 0) fault(`${brief(e)} has a place in the order of its own`);
  }
  for (const e of all('th:not([scope])')) fault(`${brief(e)} heads neither a row nor a column`);

  // A narrow screen needs no scrolling in two directions (1.4.10).
  const page = document.documentElement;
  if (page.scrollWidth > innerWidth + 1) {
    const wide = all('body *').filter((e) => shown(e) && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, svg'));
    fault(`the page is ${page.scrollWidth} pixels wide: ${wide.slice(0, 3).map(brief).join(' | ')}`);
  }

  // Contrast of texts (1.4.3).
  const parse = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return parts.length === 3 ? [...parts, 1] : parts;
  };
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const background = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) return colour;
    }
    return [255, 255, 255, 1];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !shown(e) || e.closest('.hidden, .skip')) continue;
    const style = getComputedStyle(e);
    const colour = e.closest('svg') ? style.fill : style.color;
    const a = luminance(parse(colour)), b = luminance(background(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && +style.fontWeight >= 700;
    const key = `${e.nodeName}.${e.className}: contrast ${ratio.toFixed(2)}`;
    if (ratio < (large ? 3 : 4.5) && !seen.has(key)) {
      seen.add(key);
      fault(`${key} of ${brief(e)}`);
    }
  }

  // Buttons and fields can be hit (2.5.8).
  for (const e of all('button, select, input:not([type=hidden])').filter(shown)) {
    const box = e.getBoundingClientRect();
    if (box.height < 24 || box.width < 24) fault(`${brief(e)} has ${box.width} by ${box.height} pixels`);
  }
  return faults;
};

// purserFocus says where the focus is, and whether it can be seen.
window.purserFocus = () => {
  const e = document.activeElement;
  if (!e || e === document.body) return {place: -1, seen: true, text: ''};
  const fill = e.matches('a.bar') && e.querySelector('.fill');
  const style = getComputedStyle(fill || e);
  return {
    place: purserPlaces().indexOf(e),
    seen: fill ? parseFloat(style.strokeWidth) >= 3 : style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    text: e.outerHTML.slice(0, 120),
  };
};

// purserPlaces are the elements that the keyboard has to reach, in their order.
window.purserPlaces = () => Array.from(document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, summary, [tabindex="0"]'))
    .filter((e) => e.checkVisibility({checkVisibilityCSS: true}) && e.getClientRects().length > 0);
