/** Packages that Nest and this library import on first use. */
const LAZY_PACKAGES = ['@nestjs/platform-express', '@nestjs/microservices', '@nestjs/websockets'];

let loaded: Promise<unknown> | undefined;

/** Imports the installed packages of the list before a simulation, in which code cannot wait for files. */
export function loadLazyModules(): Promise<unknown> {
  return (loaded ??= Promise.allSettled(LAZY_PACKAGES.map((name) => import(name))));
}
