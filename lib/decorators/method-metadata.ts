import 'reflect-metadata';
import type { LeaseSpec } from './lease-spec.js';

const LEASE_SPECS = 'nestjs-zookeeper:leases';

/** What a method holds while it runs, outermost first. Empty for a method that holds nothing. */
export function leaseSpecsOf(method: object): readonly LeaseSpec[] {
  return (Reflect.getMetadata(LEASE_SPECS, method) as LeaseSpec[] | undefined) ?? [];
}

/** Decorators are applied from the lowest up: the one that comes last is the outermost. */
export function addLeaseSpec(method: object, spec: LeaseSpec): void {
  Reflect.defineMetadata(LEASE_SPECS, [spec, ...leaseSpecsOf(method)], method);
}

/** What the decorators below said of the method is true of its wrapper. */
export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from)) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}
