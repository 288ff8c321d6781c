/**
 * Images and files of a request, for engines that accept them. Every dialect's part becomes an `image_url` or `file`
 * part of Chat Completions with a fixed set of fields. To prevent server-side request forgery, URLs of IP addresses and
 * private host names are refused, and so are ids of stored files.
 */
import { InstarError } from '@instar/events/errors'
import { isFields, MEDIA, wrong, type Fields } from './fields.ts'

type MediaKind = 'images' | 'files'
export type AcceptedMedia = readonly MediaKind[]
export const TEXT_ONLY: AcceptedMedia = []
export const ALL_MEDIA: AcceptedMedia = ['images', 'files']

export const isMedia = (part: Fields): boolean => MEDIA.some((kind) => kind === part['type'])

export const notText = (part: unknown, where: string): InstarError => {
  const type =
    isFields(part) && typeof part['type'] === 'string' ? `of type ${part['type'].slice(0, 40)}` : 'of no type'
  return new InstarError('bad_request', `${where} is ${type}; this model takes text only.`, { field: where })
}

/** Converts an image or file part to Chat Completions. Throws `bad_request` if it is invalid or not in `accepts`. */
export const mediaPart = (part: Fields, where: string, accepts: AcceptedMedia): Fields => {
  const reader = READERS[String(part['type'])]
  if (!reader || !accepts.includes(reader.as)) throw notText(part, where)
  return reader.part(part, where)
}

type Reader = { as: MediaKind; part(part: Fields, where: string): Fields }
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
  image: { as: 'images', part: (part, where) => image(urlsOfSource(inner(part, 'source')), `${where}.source`) },
  file: { as: 'files', part: (part, where) => file(inner(part, 'file'), `${where}.file`) },
  input_file: { as: 'files', part: (part, where) => file(part, where) },
  document: {
    as: 'files',
    part: (part, where) =>
      file(
        { filename: part['title'] ?? 'document.pdf', file_data: urlsOfSource(inner(part, 'source')).data },
        `${where}.source`,
      ),
  },
} satisfies Record<string, Reader>)

/** The `source` of a Messages block as a data: URL or as its URL. */
const urlsOfSource = ({ type, media_type: media, data, url }: Fields): { url: unknown; data: unknown } => {
  const dataUrl =
    type === 'base64' && typeof media === 'string' && typeof data === 'string' ? `data:${media};base64,${data}` : null
  return { url: dataUrl ?? (type === 'url' ? url : null), data: dataUrl }
}

const DETAILS: ReadonlySet<unknown> = new Set(['auto', 'low', 'high', 'original'])

const image = ({ url, detail }: Fields, where: string): Fields => {
  const accepted =
    typeof url !== 'string' ? null : isData(url, /^data:image\/(?:png|jpeg|gif|webp)$/) ? url : publicUrl(url)
  if (accepted === null)
    throw wrong(
      where,
      'an image: base64 in a data: URL (png, jpeg, gif, webp), or an https: URL with a public host name',
    )
  return { type: 'image_url', image_url: { url: accepted, ...(DETAILS.has(detail) ? { detail } : {}) } }
}

const file = ({ filename, file_data: data }: Fields, where: string): Fields => {
  if (typeof filename !== 'string' || !/^[^/\\\p{Cc}]{1,255}$/u.test(filename))
    throw wrong(where, 'a file with a `filename` of 1 to 255 characters without slashes and control characters')
  if (typeof data !== 'string' || !isData(data, /^data:[a-z]{1,20}\/[a-z0-9.+-]{1,100}$/))
    throw wrong(where, 'a file with `file_data`: base64 in a data: URL; stored files are not fetched')
  return { type: 'file', file: { filename, file_data: data } }
}

/** The base64 is searched for other characters, since one expression over a whole file would overflow the stack. */
const isData = (url: string, head: RegExp): boolean => {
  const at = url.indexOf(';base64,')
  if (at < 0 || at > 150 || !head.test(url.slice(0, at))) return false
  const data = url.slice(at + ';base64,'.length)
  return data !== '' && !/[^A-Za-z0-9+/]/.test(data.replace(/={1,2}$/, ''))
}

/** Characters. */
const MAX_URL_LENGTH = 8192
/** Host names that only resolve inside a network. */
const PRIVATE =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|private|lan|home|corp|home\.arpa|test|invalid|onion|arpa)$/

/**
 * The normalized URL; null unless it is https: with a public host name and without credentials. `URL` normalizes every
 * notation of an IPv4 address to four numbers, which the pattern of names refuses.
 */
const publicUrl = (text: string): string | null => {
  if (text.length > MAX_URL_LENGTH || !URL.canParse(text)) return null
  const url = new URL(text)
  const host = url.hostname.replace(/\.+$/, '')
  const isName = /^(?:[a-z0-9_-]{1,63}\.)+[a-z][a-z0-9-]{1,62}$/.test(host) && !PRIVATE.test(host)
  return url.protocol === 'https:' && url.username === '' && url.password === '' && isName ? url.href : null
}
