/** `@platformatic/kafka`, installed into .cache for the bench. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pathToFileURL } from 'node:url'
import { RECORD_BYTES, type Open } from './client.ts'
import { randomText } from './text.ts'

export const VERSION = '2.12.1'

/** Resolves with the path of the module; null, with the reason logged, if it cannot be installed. */
export const install = async (cache: string, logLine: (line: string) => void): Promise<string | null> => {
  const folder = join(cache, `platformatic-kafka-${VERSION}`)
  const module = join(folder, 'node_modules/@platformatic/kafka/dist/index.js')
  if (existsSync(module)) return module
  try {
    logLine(`installing @platformatic/kafka ${VERSION} into ${folder} …`)
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'package.json'), '{"private":true}')
    await promisify(execFile)(
      'npm',
      ['install', '--silent', '--no-audit', '--no-fund', '--save-exact', `@platformatic/kafka@${VERSION}`],
      { cwd: folder, timeout: 300_000 },
    )
    return module
  } catch (cause) {
    logLine(
      `@platformatic/kafka cannot be installed and is left out: ${cause instanceof Error ? cause.message : String(cause)}`,
    )
    return null
  }
}

type Message = { topic: string; key: Buffer; value: Buffer }
/** The exports that the bench uses. */
type Package = {
  ProduceAcks: { ALL: number }
  MessagesStreamModes: { EARLIEST: string }
  Producer: new (options: object) => {
    send(request: { acks: number; messages: Message[] }): Promise<unknown>
    close(): Promise<void>
  }
  Consumer: new (options: object) => {
    consume(options: object): Promise<AsyncIterable<unknown> & { close(): Promise<void> }>
    close(force?: boolean): Promise<void>
  }
}

const value = randomText(RECORD_BYTES)

/** Sends one request at a time, with all records that are pending: `send` of the package does not batch records. */
export const open: Open = async ({ brokers, topic }, [path]) => {
  const { Producer, Consumer, ProduceAcks, MessagesStreamModes } = (await import(pathToFileURL(path!).href)) as Package
  const producer = new Producer({
    clientId: 'bench',
    bootstrapBrokers: [...brokers],
    idempotent: true,
    strict: false,
    maxInflights: 1,
  })
  let pending: { messages: Message[]; resolve(): void; reject(cause: unknown): void }[] = []
  let running = false
  const drain = async (): Promise<void> => {
    while (pending.length > 0) {
      const calls = pending
      pending = []
      try {
        await producer.send({ acks: ProduceAcks.ALL, messages: calls.flatMap(({ messages }) => messages) })
        for (const { resolve } of calls) resolve()
      } catch (cause) {
        for (const { reject } of calls) reject(cause)
      }
    }
    running = false
  }
  return {
    produce: (keys) =>
      new Promise<void>((resolve, reject) => {
        pending.push({ messages: keys.map((key) => ({ topic, key: Buffer.from(key), value })), resolve, reject })
        if (running) return
        running = true
        queueMicrotask(() => void drain())
      }),
    async consume(records) {
      const consumer = new Consumer({
        clientId: 'bench',
        groupId: `bench-${Date.now()}`,
        bootstrapBrokers: [...brokers],
        autocommit: false,
      })
      const stream = await consumer.consume({
        topics: [topic],
        mode: MessagesStreamModes.EARLIEST,
        autocommit: false,
        maxWaitTime: 500,
      })
      let count = 0
      for await (const _ of stream) if (++count >= records) break
      await consumer.close(true)
    },
    close: () => producer.close(),
  }
}
