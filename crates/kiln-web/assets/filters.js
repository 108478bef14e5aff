// A row of fields that choose what is shown. What is chosen stands in the address, so that it can be linked to.

import { h, setChildren } from './dom.js';

// fields: { name, label, kind: 'search' } or { name, label, options: () => [[value, text]], all: 'what nothing chosen is called' }
export function filters(query, fields, changed) {
  const values = Object.fromEntries(fields.map(({ name }) => [name, query.get(name) ?? '']));
  const inputs = fields.map((field) => {
    const id = `filter-${field.name}`;
    const input = field.options ? h('select', { id }) : h('input', { id, type: 'search', autocomplete: 'off' });
    input.value = values[field.name];
    input.addEventListener('input', () => {
      values[field.name] = input.value;
      remember(values);
      changed();
    });
    return { field, input, element: h('div', {}, h('label', { for: id }, field.label), input) };
  });
  const element = h('form', { class: 'filters', role: 'search' }, inputs.map(({ element }) => element));
  element.addEventListener('submit', (event) => event.preventDefault());
  const refresh = () => {
    for (const { field, input } of inputs) {
      if (!field.options) continue;
      const options = field.options();
      const wanted = values[field.name];
      if (wanted && !options.some(([value]) => value === wanted)) options.push([wanted, wanted]);
      setChildren(input, [h('option', { value: '' }, field.all ?? 'all'), ...options.map(([value, text]) => h('option', { value }, text))]);
      if (input.value !== wanted) input.value = wanted;
    }
  };
  refresh();
  return { element, values, refresh };
}

function remember(values) {
  const chosen = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  const page = location.hash.split('?')[0];
  history.replaceState(null, '', chosen.size ? `${page}?${chosen}` : page);
}
