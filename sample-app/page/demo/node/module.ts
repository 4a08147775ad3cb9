const updates: (() => void)[] = [];

/** Registers a function that copies the properties of a module's default export to its other exports. */
export function onSync(update: () => void): void {
  updates.push(update);
}

export function syncBuiltinESMExports(): void {
  for (const update of updates) update();
}

export function createRequire() {
  return (name: string): never => {
    throw new Error(`${name} does not exist in a browser`);
  };
}
