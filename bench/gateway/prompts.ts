/** Requests of the bench: words that differ from one to the next, of a size that stays. */

export type Size = '1 KB' | '200 KB' | '200 KB again'

const BYTES: Record<Size, number> = { '1 KB': 1_000, '200 KB': 200_000, '200 KB again': 200_000 }
/** Turns of one session that grows; the first is 200 KB long. */
const TURNS = 10
/** Replaced by what is different in each request. */
const STAMP = '0000000000000000'
/** How far apart the stamps of a text are. */
const APART = 4_000

const WORDS =
  'river stone engine matrix letter paper open close under above window garden number silver carry follow measure record question answer turn session reward model weight version token sample gradient batch policy judge hint line head offset replay commit broker memory cache thread socket stream chunk frame byte hash digest field schema table index query result error retry limit budget seed prompt system user tool call output file path folder branch merge commit test build deploy'.split(
    ' ',
  )

/** Words in a fixed random order, a stamp at the start and every 4 KB. */
const textOf = (bytes: number, seed: number): string => {
  let state = seed * 2_654_435_761 + 1
  let text = ''
  let stampAt = 0
  while (text.length < bytes) {
    if (text.length >= stampAt) {
      text += `${STAMP} `
      stampAt += APART
    }
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    text += `${WORDS[(state >>> 8) % WORDS.length]!}${state % 17 === 0 ? '.\n' : ' '}`
  }
  return text.slice(0, bytes)
}

const SYSTEM =
  'You are a careful assistant in a software project. Answer in short sentences and name the files that you mean.'

type Message = Record<string, unknown>

const messagesOf = (size: Size, seed: number): Message[] => {
  const bytes = BYTES[size] - SYSTEM.length - 160
  const system = { role: 'system', content: SYSTEM }
  if (size !== '200 KB again') return [system, { role: 'user', content: textOf(bytes, seed) }]
  // As an agent's conversation: calls and what the tools gave.
  const results = 40
  const steps = Array.from({ length: results }, (_, i): Message[] => {
    const id = `${STAMP}${i}`
    return [
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id,
            type: 'function',
            function: { name: 'read_file', arguments: JSON.stringify({ path: `src/part-${i}.ts`, why: STAMP }) },
          },
        ],
      },
      { role: 'tool', tool_call_id: id, content: textOf(bytes / results - 260, seed + i) },
    ]
  })
  return [
    system,
    { role: 'user', content: `${STAMP} Find out why the build fails.` },
    ...steps.flat(),
    { role: 'user', content: `${STAMP} And now?` },
  ]
}

export type Asked = { size: Size; stream: boolean; host: string; headers: readonly string[] }

let stamps = 0
const newStamp = (): string => `${process.pid.toString(36)}${(++stamps).toString(36)}`.padStart(STAMP.length, 'x')

/** The requests of one connection, one after another, as the bytes of HTTP/1.1. */
export class Talk {
  readonly #asked: Asked
  readonly #body: Buffer
  readonly #stampsAt: number[]
  readonly #request: Buffer | null
  #more: string[] = []
  #session = ''

  constructor(asked: Asked, seed: number) {
    this.#asked = asked
    const { size, stream } = asked
    const fields = {
      model: 'policy',
      stream,
      ...(stream ? { stream_options: { include_usage: true } } : {}),
      temperature: 0.7,
      messages: messagesOf(size, seed),
    }
    this.#body = Buffer.from(JSON.stringify(fields).slice(0, -2))
    const whole =
      size === '200 KB again'
        ? null
        : Buffer.concat([this.#head(STAMP, this.#body.length + 2), this.#body, Buffer.from(']}')])
    this.#request = whole
    this.#stampsAt = placesOf(whole ?? this.#body)
  }

  /** Valid until the next is asked for. */
  next(): Buffer {
    const { size } = this.#asked
    if (size !== '200 KB again') {
      this.#stamp(this.#request!, newStamp())
      return this.#request!
    }
    if (this.#more.length === 0 || this.#more.length >= 2 * TURNS) {
      this.#session = newStamp()
      this.#more = []
      this.#stamp(this.#body, this.#session)
    }
    const rest = Buffer.from(`${this.#more.join('')}]}`)
    return Buffer.concat([this.#head(this.#session, this.#body.length + rest.length), this.#body, rest])
  }

  /** Whether `answered` has to be told the answers. */
  get grows(): boolean {
    return this.#asked.size === '200 KB again'
  }

  /** The conversation goes on behind this answer. */
  answered(text: string): void {
    this.#more.push(
      `,${JSON.stringify({ role: 'assistant', content: text })}`,
      `,${JSON.stringify({ role: 'user', content: `${newStamp()} Go on, and say why.` })}`,
    )
  }

  #stamp(bytes: Buffer, stamp: string): void {
    for (const at of this.#stampsAt) bytes.write(stamp, at, 'latin1')
  }

  #head(session: string, length: number): Buffer {
    const { host, headers } = this.#asked
    return Buffer.from(
      [
        'POST /v1/chat/completions HTTP/1.1',
        `host: ${host}`,
        'content-type: application/json',
        `x-session-id: ${session}`,
        ...headers,
        `content-length: ${length}`,
        '',
        '',
      ].join('\r\n'),
    )
  }
}

const placesOf = (bytes: Buffer): number[] => {
  const places: number[] = []
  for (let at = bytes.indexOf(STAMP); at >= 0; at = bytes.indexOf(STAMP, at + STAMP.length)) places.push(at)
  return places
}
