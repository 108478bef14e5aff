// Small charts of the last day. What is drawn is said in words, too.

import { h } from './dom.js';

export const DAY = 86400;

export function range(points) {
  const values = points.map(([, value]) => value);
  return [Math.min(...values), Math.max(...values)];
}

// points: [seconds, value], newest first.
export function figure(words, points, name) {
  const now = Date.now() / 1000;
  const most = Math.max(1, range(points)[1]);
  const x = (at) => (Math.max(0, Math.min(1, (at - now + DAY) / DAY)) * 1000).toFixed(1);
  const y = (value) => (104 - (value / most) * 96).toFixed(1);
  const path = points.map(([at, value], index) => `${index ? 'L' : 'M'}${x(at)} ${y(value)}`).join(' ');
  const area = `${path} L${x(points.at(-1)[0])} 104 L${x(points[0][0])} 104 Z`;
  return h('figure', { class: name }, h('figcaption', {}, words),
    svg('svg', { viewBox: '0 0 1000 108', preserveAspectRatio: 'none', role: 'img', 'aria-label': words },
      svg('path', { class: 'area', d: area }), svg('path', { class: 'line', d: path })),
    h('div', { class: 'axis quiet', 'aria-hidden': 'true' }, h('span', {}, '24 h ago'), h('span', {}, '12 h ago'), h('span', {}, 'now')));
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
