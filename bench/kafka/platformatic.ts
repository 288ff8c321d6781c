/** `@platformatic/kafka`, installed for the bench alone into .cache. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pathToFileURL } from 'node:url'
import { RECORD_BYTES, type Open } from './client.ts'
import { randomText } from './text.ts'

export const VERSION = '2.12.1'

/** The folder of the package; null, with the reason said, where it cannot be had. */
export const install = async (cache: string, say: (line: string) => void): Promise<string | null> => {
  const folder = join(cache, `platformatic-kafka-${VERSION}`)
  const there = join(folder, 'node_modules/@platformatic/kafka/dist/index.js')
  if (existsSync(there)) return there
  try {
    say(`installing @platformatic/kafka ${VERSION} into ${folder}, for the bench alone …`)
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'package.json'), '{"private":true}')
    await promisify(execFile)(
      'npm',
      ['install', '--silent', '--no-audit', '--no-fund', '--save-exact', `@platformatic/kafka@${VERSION}`],
      { cwd: folder, timeout: 300_000 },
    )
    return there
  } catch (cause) {
    say(`without @platformatic/kafka: ${cause instanceof Error ? cause.message : String(cause)}`)
    return null
  }
}

/** What is used of it. */
type Message = { topic: string; key: Buffer; value: Buffer }
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

/** One send at a time, of what has come meanwhile: its `send` does not gather records. */
export const open: Open = async ({ brokers, topic }, [path]) => {
  const { Producer, Consumer, ProduceAcks, MessagesStreamModes } = (await import(pathToFileURL(path!).href)) as Package
  const producer = new Producer({
    clientId: 'bench',
    bootstrapBrokers: [...brokers],
    idempotent: true,
    strict: false,
    maxInflights: 1,
  })
  let waiting: { messages: Message[]; resolve(): void; reject(cause: unknown): void }[] = []
  let running = false
  const drain = async (): Promise<void> => {
    while (waiting.length > 0) {
      const together = waiting
      waiting = []
      try {
        await producer.send({ acks: ProduceAcks.ALL, messages: together.flatMap(({ messages }) => messages) })
        for (const { resolve } of together) resolve()
      } catch (cause) {
        for (const { reject } of together) reject(cause)
      }
    }
    running = false
  }
  return {
    produce: (keys) =>
      new Promise<void>((resolve, reject) => {
        waiting.push({ messages: keys.map((key) => ({ topic, key: Buffer.from(key), value })), resolve, reject })
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
      let seen = 0
      for await (const _ of stream) if (++seen >= records) break
      await consumer.close(true)
    },
    close: () => producer.close(),
  }
}
