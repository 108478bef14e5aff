// What differs between the packages of two images.

import { byName } from './words.js';

// Packages that are in one of both, or in another version.
export function difference(here, there) {
  const versions = (list) => new Map(list.map((row) => [row.name, row.version]));
  const [a, b] = [versions(here), versions(there)];
  const names = [...new Set([...a.keys(), ...b.keys()])].filter((name) => a.get(name) !== b.get(name)).sort(byName);
  return names.map((name) => ({ name, here: a.get(name), there: b.get(name) }));
}
