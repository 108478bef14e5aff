// Making and changing elements. Text is always text: nothing that comes from the cluster is ever read as HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Replaces what is inside only where it differs: what somebody is reading, or has the focus on, stays.
export function setChildren(element, children) {
  const next = children.filter((child) => child !== null && child !== undefined);
  const same = element.childNodes.length === next.length
    && next.every((child, index) => element.childNodes[index].isEqualNode(child));
  if (!same) element.replaceChildren(...next);
}

// A list of elements with keys: only what is new, gone or changed is touched.
export function keyed(parent, items, key, make, update) {
  const known = parent.keyed ??= new Map();
  const wanted = new Set();
  let place = parent.firstChild;
  for (const item of items) {
    const name = String(key(item));
    wanted.add(name);
    let entry = known.get(name);
    if (!entry) {
      entry = { element: make(item), item };
      known.set(name, entry);
      update?.(entry.element, item);
    } else if (entry.item !== item) {
      entry.item = item;
      update?.(entry.element, item);
    }
    if (entry.element === place) place = place.nextSibling;
    else parent.insertBefore(entry.element, place);
  }
  for (const [name, entry] of known) {
    if (wanted.has(name)) continue;
    entry.element.remove();
    known.delete(name);
  }
}
