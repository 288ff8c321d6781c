/** Requests of the gateway bench: of constant size, each with different text. */

/** `200 KB again`: a session that grows, so that each request repeats the one before. */
export type Size = '1 KB' | '200 KB' | '200 KB again'

const BYTES: Record<Size, number> = { '1 KB': 1_000, '200 KB': 200_000, '200 KB again': 200_000 }
/** Turns of a session that grows; its first request is 200 KB long. */
const TURNS = 10
/** Placeholder that is replaced in each request, so that no two are the same. */
const STAMP = '0000000000000000'
/** Characters between two stamps of a text. */
const STAMP_INTERVAL = 4_000

const WORDS =
  'river stone engine matrix letter paper open close under above window garden number silver carry follow measure record question answer turn session reward model weight version token sample gradient batch policy judge hint line head offset replay commit broker memory cache thread socket stream chunk frame byte hash digest field schema table index query result error retry limit budget seed prompt system user tool call output file path folder branch merge commit test build deploy'.split(
    ' ',
  )

/** Words in a pseudo-random order, with a stamp at the start and every STAMP_INTERVAL characters. */
const textOf = (bytes: number, seed: number): string => {
  let state = seed * 2_654_435_761 + 1
  let text = ''
  let stampAt = 0
  while (text.length < bytes) {
    if (text.length >= stampAt) {
      text += `${STAMP} `
      stampAt += STAMP_INTERVAL
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
  // Like an agent's conversation: tool calls and their results.
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

type RequestOptions = { size: Size; stream: boolean; host: string; headers: readonly string[] }

let stamps = 0
const newStamp = (): string => `${process.pid.toString(36)}${(++stamps).toString(36)}`.padStart(STAMP.length, 'x')

/** Generates the requests of one connection, as bytes of HTTP/1.1. */
export class RequestGenerator {
  readonly #options: RequestOptions
  readonly #body: Buffer
  readonly #stampOffsets: number[]
  readonly #request: Buffer | null
  /** Messages after those of `#body`. */
  #added: string[] = []
  #session = ''

  constructor(options: RequestOptions, seed: number) {
    this.#options = options
    const { size, stream } = options
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
    this.#stampOffsets = offsetsOf(whole ?? this.#body)
  }

  /** The next request; valid until the next call. */
  next(): Buffer {
    const { size } = this.#options
    if (size !== '200 KB again') {
      this.#stamp(this.#request!, newStamp())
      return this.#request!
    }
    if (this.#added.length === 0 || this.#added.length >= 2 * TURNS) {
      this.#session = newStamp()
      this.#added = []
      this.#stamp(this.#body, this.#session)
    }
    const rest = Buffer.from(`${this.#added.join('')}]}`)
    return Buffer.concat([this.#head(this.#session, this.#body.length + rest.length), this.#body, rest])
  }

  /** Whether the next request depends on the answer, which `addAnswer` has to be given. */
  get grows(): boolean {
    return this.#options.size === '200 KB again'
  }

  /** Continues the conversation after this answer. */
  addAnswer(text: string): void {
    this.#added.push(
      `,${JSON.stringify({ role: 'assistant', content: text })}`,
      `,${JSON.stringify({ role: 'user', content: `${newStamp()} Go on, and say why.` })}`,
    )
  }

  #stamp(bytes: Buffer, stamp: string): void {
    for (const at of this.#stampOffsets) bytes.write(stamp, at, 'latin1')
  }

  #head(session: string, length: number): Buffer {
    const { host, headers } = this.#options
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

const offsetsOf = (bytes: Buffer): number[] => {
  const offsets: number[] = []
  for (let at = bytes.indexOf(STAMP); at >= 0; at = bytes.indexOf(STAMP, at + STAMP.length)) offsets.push(at)
  return offsets
}
