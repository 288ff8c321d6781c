/** Rate-limits failed authentications by client address. A few are allowed as mistakes. */
import { take, type Bucket } from './keys.ts'

/**
 * The network of an address: for IPv6 the first 64 bits, since a customer has that many. IPv4 inside IPv6 counts as
 * IPv4.
 */
export const networkOf = (address: string): string => {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address
  const [head = '', tail] = address.split('%')[0]!.split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const all =
    tail === undefined
      ? first
      : [...first, ...Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => '0'), ...last]
  return all
    .slice(0, 4)
    .map((part) => Number.parseInt(part, 16).toString(16))
    .join(':')
}

export class WrongKeys {
  private readonly buckets = new Map<string, Bucket>()
  private readonly perMinute: number
  private readonly most: number

  /** `most`: remembered addresses. The address whose last failure is the oldest is evicted first. */
  constructor(perMinute: number, most = 10_000) {
    this.perMinute = perMinute
    this.most = most
  }

  get size(): number {
    return this.buckets.size
  }

  /** Milliseconds until a client at this address may try an unverified key; 0: now. */
  waitMs(address: string, now: number): number {
    const bucket = this.buckets.get(networkOf(address))
    if (!bucket) return 0
    const next = take(bucket, this.perMinute, now, 0)
    return 'waitMs' in next ? next.waitMs : 0
  }

  count(address: string, now: number): void {
    const network = networkOf(address)
    const before = this.buckets.get(network) ?? null
    const next = take(before, this.perMinute, now)
    if (!('bucket' in next)) return
    this.buckets.delete(network)
    this.buckets.set(network, next.bucket)
    if (this.buckets.size > this.most) this.buckets.delete(this.buckets.keys().next().value!)
  }
}
