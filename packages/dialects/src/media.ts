/**
 * Images and files of a request, for engines that say they take them. Every dialect's form becomes one of Chat Completions':
 * `image_url` or `file`, of the named fields alone. What an engine would have to fetch from where only it may
 * reach (an address, a name of its own network, an id of a file that is elsewhere) is refused.
 */
import { InstarError } from '@instar/events/errors'
import { isFields, MEDIA, wrong, type Fields } from './fields.ts'

export type Accepted = 'images' | 'files'
export type Accepts = readonly Accepted[]
export const TEXT_ONLY: Accepts = []
export const EVERYTHING: Accepts = ['images', 'files']

export const isMedia = (part: Fields): boolean => MEDIA.some((kind) => kind === part['type'])

export const notText = (part: unknown, where: string): InstarError => {
  const type =
    isFields(part) && typeof part['type'] === 'string' ? `of type ${part['type'].slice(0, 40)}` : 'of no type'
  return new InstarError('bad_request', `${where} is ${type}; this model takes text only.`, { field: where })
}

/** An image or a file, as it goes on. Throws `bad_request` for anything else, and where it is not taken. */
export const mediaPart = (part: Fields, where: string, accepts: Accepts): Fields => {
  const read = READERS[String(part['type'])]
  if (!read || !accepts.includes(read.as)) throw notText(part, where)
  return read.part(part, where)
}

type Reader = { as: Accepted; part(part: Fields, where: string): Fields }
const inner = (part: Fields, name: string): Fields => (isFields(part[name]) ? part[name] : {})

const READERS: Readonly<Record<string, Reader | undefined>> = Object.assign(Object.create(null) as object, {
  image_url: {
    as: 'images',
    part: (part, where) =>
      image(isFields(part['image_url']) ? part['image_url'] : { url: part['image_url'] }, `${where}.image_url`),
  },
  input_image: {
    as: 'images',
    part: ({ image_url: url, detail }, where) => image({ url, detail }, `${where}.image_url`),
  },
  image: { as: 'images', part: (part, where) => image(sourced(inner(part, 'source')), `${where}.source`) },
  file: { as: 'files', part: (part, where) => file(inner(part, 'file'), `${where}.file`) },
  input_file: { as: 'files', part: (part, where) => file(part, where) },
  document: {
    as: 'files',
    part: (part, where) =>
      file(
        { filename: part['title'] ?? 'document.pdf', file_data: sourced(inner(part, 'source')).data },
        `${where}.source`,
      ),
  },
} satisfies Record<string, Reader>)

/** Of Messages: data with its type, or an address. */
const sourced = ({ type, media_type: media, data, url }: Fields): { url: unknown; data: unknown } => {
  const written =
    type === 'base64' && typeof media === 'string' && typeof data === 'string' ? `data:${media};base64,${data}` : null
  return { url: written ?? (type === 'url' ? url : null), data: written }
}

const DETAILS: ReadonlySet<unknown> = new Set(['auto', 'low', 'high', 'original'])

const image = ({ url, detail }: Fields, where: string): Fields => {
  const taken =
    typeof url !== 'string' ? null : isData(url, /^data:image\/(?:png|jpeg|gif|webp)$/) ? url : publicUrl(url)
  if (taken === null)
    throw wrong(
      where,
      'an image: base64 in a data: URL (png, jpeg, gif, webp), or an https: URL of a host that has a public name',
    )
  return { type: 'image_url', image_url: { url: taken, ...(DETAILS.has(detail) ? { detail } : {}) } }
}

const file = ({ filename, file_data: data }: Fields, where: string): Fields => {
  if (typeof filename !== 'string' || !/^[^/\\\p{Cc}]{1,255}$/u.test(filename))
    throw wrong(where, 'a file with a name of up to 255 characters, no slashes among them')
  if (typeof data !== 'string' || !isData(data, /^data:[a-z]{1,20}\/[a-z0-9.+-]{1,100}$/))
    throw wrong(where, 'a file as base64 in a data: URL; what is stored elsewhere is not fetched')
  return { type: 'file', file: { filename, file_data: data } }
}

/** Searched for what is not base64: an expression over all of it would need a stack as long as the file. */
const isData = (url: string, head: RegExp): boolean => {
  const at = url.indexOf(';base64,')
  if (at < 0 || at > 150 || !head.test(url.slice(0, at))) return false
  const data = url.slice(at + ';base64,'.length)
  return data !== '' && !/[^A-Za-z0-9+/]/.test(data.replace(/={1,2}$/, ''))
}

const LONGEST_URL = 8192
/** Host names that only resolve locally. */
const PRIVATE =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|private|lan|home|corp|home\.arpa|test|invalid|onion|arpa)$/

/**
 * The URL as it was understood; null where its host is an address, or a name that is not public. `URL` writes every
 * spelling of an IPv4 address in four numbers.
 */
const publicUrl = (text: string): string | null => {
  if (text.length > LONGEST_URL || !URL.canParse(text)) return null
  const url = new URL(text)
  const host = url.hostname.replace(/\.+$/, '')
  const isName = /^(?:[a-z0-9_-]{1,63}\.)+[a-z][a-z0-9-]{1,62}$/.test(host) && !PRIVATE.test(host)
  return url.protocol === 'https:' && url.username === '' && url.password === '' && isName ? url.href : null
}
