/** Parses INSTAR_ENGINE: the kind of the engine and the addresses of its replicas. */
import { InstarError } from '@instar/events'
import { ENGINE_KINDS, type EngineKind } from './kinds.ts'

/** `urls`: without a trailing `/v1`. */
type EngineAddress = { kind: EngineKind; urls: readonly string[] }

/** Parses `KIND+URL,URL…`; each URL may repeat the kind. Throws `bad_request`. */
export const engineAddress = (engine: string): EngineAddress => {
  const bad = (problem: string): never => {
    throw new InstarError('bad_request', `INSTAR_ENGINE=${engine} is invalid: ${problem}`, { field: 'INSTAR_ENGINE' })
  }
  const parts = engine
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const kind =
    ENGINE_KINDS.find((one) => parts[0]?.startsWith(`${one}+`)) ??
    bad(`it must begin with one of ${ENGINE_KINDS.map((one) => `${one}+`).join(', ')}.`)
  const urls = parts.map((part) => {
    const url = part.startsWith(`${kind}+`) ? part.slice(kind.length + 1) : part
    if (!/^https?:\/\//.test(url) || !URL.canParse(url))
      bad(`${JSON.stringify(url)} is not an http:// or https:// address. All replicas must be ${kind}+.`)
    return url.replace(/\/+$/, '').replace(/\/v1$/, '')
  })
  return { kind, urls: [...new Set(urls)] }
}
