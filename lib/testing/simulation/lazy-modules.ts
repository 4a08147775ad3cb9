/** Packages that Nest and this library load only when they need them. */
const LAZY = ['@nestjs/platform-express', '@nestjs/microservices', '@nestjs/websockets'];

let loaded: Promise<unknown> | undefined;

/** Loads the lazy packages that are installed, because code in a simulation cannot wait for files. */
export function loadLazyModules(): Promise<unknown> {
  return (loaded ??= Promise.allSettled(LAZY.map((name) => import(name))));
}
