/** A pipeline in this process, without a database, with conversations, for tests of its log. */
import { deepEqual } from 'node:assert/strict'
import OpenAI from 'openai'
import { adminToken } from '@instar/process/admin-token'
import { adminTokenIn, readSettings } from '@instar/process'
import { startPipeline, type Pipeline } from '../../cli/src/pipeline.ts'
import type { PipelineConfig } from '../../cli/src/pipeline-config.ts'
import { ask, sessions, type Session } from '../kit/people.ts'

export type Place = Pipeline & {
  client: OpenAI
  /** An admin command over HTTP; of a streamed response the last line. */
  order<T>(path: string, body: unknown): Promise<T>
}

export const open = async (data: string, changes: Partial<PipelineConfig> = {}): Promise<Place> => {
  const faults: Error[] = []
  const running = await startPipeline(
    {
      data,
      model: readSettings({}, '/').model,
      engine: 'auto',
      database: false,
      gateway: { port: 0 },
      scorer: {},
      trainer: {},
      publisher: {},
      ...changes,
    },
    { onFatal: (error) => faults.push(error), logLine: () => undefined },
  )
  return {
    ...running,
    client: new OpenAI({ baseURL: `${running.url}/v1`, apiKey: 'none', maxRetries: 0 }),
    async order<T>(path: string, body: unknown) {
      const response = await fetch(`${running.url}/admin/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-instar-admin-token': adminToken(adminTokenIn(data)) },
        body: JSON.stringify(body),
      })
      const text = await response.text()
      if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
      return JSON.parse(text.trimEnd().split('\n').at(-1)!) as T
    },
    async stop() {
      await running.stop()
      deepEqual(faults, [])
    },
  }
}

/** Sixteen users ask and react, then thank, which is a next state for the second answer too. */
export const talkTwice = async ({ client, settled }: Place, from: number): Promise<Session[]> => {
  const first = await sessions(client, from, 16)
  await settled()
  await Promise.all(
    first.map(async ({ messages, second }, i) =>
      ask(
        client,
        [
          ...messages,
          { role: 'user', content: i % 3 === 0 ? 'No, that is wrong.' : 'Thanks, that is just how I like it.' },
        ],
        { session: second.session, user: `person ${i % 4}` },
      ),
    ),
  )
  await settled()
  return first
}
