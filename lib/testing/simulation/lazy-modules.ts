/** Modules that Nest and this library import on first use. */
const LAZY_MODULES = [
  '@nestjs/platform-express',
  '@nestjs/microservices',
  '@nestjs/microservices/microservices-module.js',
  '@nestjs/websockets',
  '@nestjs/websockets/socket-module.js',
];

let loaded: Promise<unknown> | undefined;

/** Imports the installed modules of the list before a simulation, in which code cannot wait for files. */
export function loadLazyModules(): Promise<unknown> {
  return (loaded ??= Promise.allSettled(LAZY_MODULES.map((name) => import(name))));
}
