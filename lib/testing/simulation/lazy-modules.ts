/** Packages that Nest and this library load when they are first needed. */
const LAZY = ['@nestjs/platform-express', '@nestjs/microservices', '@nestjs/websockets'];

let loaded: Promise<unknown> | undefined;

/** Loads those of them that are installed, since code in a simulation cannot wait for files. */
export function loadLazyModules(): Promise<unknown> {
  return (loaded ??= Promise.allSettled(LAZY.map((name) => import(name))));
}
