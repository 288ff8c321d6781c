/** Reads the settings file of learning: `instar.json` in the working folder, or what INSTAR_SETTINGS names or holds. */
import { InstarError } from '@instar/events/errors'
import { isJsonObject } from '@instar/events/json'
import { closeSync, openSync, readSync, statSync, type Stats } from 'node:fs'

/** Where settings come from. `text`: INSTAR_SETTINGS is JSON itself; otherwise `path`, which must exist if `named`. */
export type SettingsSource = { text: string | null; path: string; named: boolean }

/** `source`: the path, or INSTAR_SETTINGS for JSON in the variable; null: there is no file. */
export type SettingsFile = { source: string | null; settings: Readonly<Record<string, unknown>> }

const MAX_BYTES = 1 << 20
const NONE: SettingsFile = { source: null, settings: {} }

const fault = (source: string, what: string, cause?: unknown): InstarError =>
  new InstarError('bad_request', `${source} ${what}`, { field: 'INSTAR_SETTINGS' }, { cause })

const unreadable = (path: string, cause: unknown): InstarError =>
  fault(path, `cannot be read (${(cause as NodeJS.ErrnoException).code}).`, cause)

/**
 * An empty file counts as none (compose mounts one). Throws `bad_request` for a named file that does not exist, for one
 * above 1 MiB, and for text that is not a JSON object; the message quotes no content, which may hold a secret.
 */
export const readSettingsFile = ({ text, path, named }: SettingsSource): SettingsFile => {
  if (text !== null) return parse('INSTAR_SETTINGS', text)
  let stat: Stats | undefined
  try {
    stat = statSync(path, { throwIfNoEntry: false })
  } catch (cause) {
    throw unreadable(path, cause)
  }
  if (!stat) {
    if (named) throw fault(path, 'does not exist. Set INSTAR_SETTINGS to a file, or to JSON that starts with `{`.')
    return NONE
  }
  if (stat.isDirectory()) throw fault(path, 'is a folder; the settings are one JSON file.')
  // Reading a pipe waits for a writer, and no signal ends it. /dev/null, which compose mounts, is a device.
  if (stat.isFIFO() || stat.isSocket()) throw fault(path, 'is not a file.')
  if (stat.size > MAX_BYTES) throw fault(path, `has ${stat.size} bytes; at most ${MAX_BYTES} are allowed.`)
  let content: string
  try {
    content = readStart(path)
  } catch (cause) {
    throw unreadable(path, cause)
  }
  return content.trim() === '' ? NONE : parse(path, content)
}

/** At most one byte more than MAX_BYTES: a device says no size and may never end. */
const readStart = (path: string): string => {
  const bytes = Buffer.alloc(MAX_BYTES + 1)
  const file = openSync(path, 'r')
  try {
    let length = 0
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(file, bytes, length, bytes.length - length, null)
    return bytes.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

const parse = (source: string, content: string): SettingsFile => {
  if (Buffer.byteLength(content) > MAX_BYTES) throw fault(source, `has more than ${MAX_BYTES} bytes.`)
  let value: unknown
  try {
    // A byte order mark is what some editors put first.
    value = JSON.parse(content.replace(/^\uFEFF/, ''))
  } catch (cause) {
    const offset = /position (\d+)/.exec((cause as Error).message)?.[1]
    const line = offset === undefined ? null : content.slice(0, Number(offset)).split('\n').length
    throw fault(source, `is not JSON${line === null ? '' : ` (line ${line})`}.`)
  }
  if (!isJsonObject(value)) throw fault(source, 'must be a JSON object of sections: {"training": {…}, "gate": {…}}.')
  return { source, settings: value }
}
