import 'reflect-metadata';
import type { MethodSpec } from './method-spec.js';

const SPECS = 'nestjs-zookeeper:needs';

/** What a method needs to run, outermost first. Empty for a method that needs nothing. */
export function specsOf(method: object): readonly MethodSpec[] {
  return (Reflect.getMetadata(SPECS, method) as MethodSpec[] | undefined) ?? [];
}

/** Decorators are applied from the lowest up: the one that comes last is the outermost. */
export function addSpec(method: object, spec: MethodSpec): void {
  Reflect.defineMetadata(SPECS, [spec, ...specsOf(method)], method);
}

/** What the decorators below said of the method is true of its wrapper. */
export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from)) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}
