/**
 * The whole pipeline on an engine behind HTTP: it trains where there are weights and captures only where there are
 * none.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startPipeline, type Pipeline } from '../../cli/src/pipeline.ts'
import type { PipelineConfig } from '../../cli/src/pipeline-config.ts'
import type { Model } from '@instar/engine/port'
import { openModel } from '@instar/policy'
import { turnOf, USER } from '../kit/gateway.ts'
import { writeRandomModel } from '../kit/random-model.ts'
import { ScriptedOpenai } from './scripted-openai.ts'
import { ScriptedVllm } from './scripted-vllm.ts'
import type { ScriptedServer } from './server.ts'

const folder = mkdtempSync(join(tmpdir(), 'instar-engines-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const writeLight = (from: string, to: string): string => {
  cpSync(from, to, { recursive: true, filter: (name) => !name.endsWith('.safetensors') })
  return to
}

const running = async (
  name: string,
  engine: string,
  model: string,
  modelNamed = true,
): Promise<{ pipeline: Pipeline; said: string[] }> => {
  const said: string[] = []
  const data = join(folder, name)
  const config: PipelineConfig = {
    data,
    model,
    engine: 'wasm',
    database: false,
    gateway: { port: 0 },
    scorer: {},
    trainer: {},
    publisher: {},
    remote: { engine, engineKey: null, engineModel: null, adapters: join(data, 'adapters'), model, modelNamed },
  }
  return {
    said,
    pipeline: await startPipeline(config, {
      onFatal: (error) => {
        throw error
      },
      logLine: (line) => said.push(line),
    }),
  }
}

const ask = async ({ url, log }: Pipeline): Promise<{ text: string; trainable: boolean; reason: string | null }> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'policy', messages: [USER('Hi')], max_tokens: 40 }),
  })
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
  const { trainable, reason } = await turnOf(log, response.headers.get('x-instar-turn-id'))
  return { text: choices[0]!.message.content, trainable, reason }
}

test('the pipeline on vLLM learns where the model folder has weights, and captures only where it has none', async () => {
  const path = writeRandomModel(join(folder, 'model'))
  const model: Model = await openModel(path)
  const server = await new ScriptedVllm(model, { say: () => 'Good day' }).start()
  try {
    const one = await running('weights', `vllm+${server.url}/v1`, path)
    assert.match(one.pipeline.serving, /^vllm 0\.32\.0 \(base\), 1 of 1 server: token ids/)
    assert.match(one.pipeline.learning!, /^wasm /)
    assert.equal(one.pipeline.model.sha256, model.sha256)
    assert.deepEqual(await ask(one.pipeline), { text: 'Good day', trainable: true, reason: null })
    await one.pipeline.stop()

    const two = await running('light', `vllm+${server.url}/v1`, writeLight(path, join(folder, 'light-model')))
    assert.equal(two.pipeline.learning, null)
    assert.ok(
      two.said.some((line) => line.startsWith('Turns are captured only: ') && line.includes('holds no weights')),
      two.said.join('\n'),
    )
    assert.deepEqual(await ask(two.pipeline), { text: 'Good day', trainable: false, reason: 'off' })
    await two.pipeline.settled()
    await two.pipeline.stop()
  } finally {
    await server.kill()
  }
})

test('the pipeline captures turns of a server of Chat Completions; an engine of token ids requires INSTAR_MODEL', async () => {
  const server: ScriptedServer = await new ScriptedOpenai(await openModel(join(folder, 'model')), {
    say: () => '',
  }).start()
  try {
    const { pipeline, said } = await running('text', `openai+${server.url}/v1`, '/nowhere', false)
    assert.ok(said.some((line) => line.includes('this engine gives no token ids')))
    assert.deepEqual(await ask(pipeline), { text: 'Hello there.', trainable: false, reason: 'off' })
    const count = await fetch(`${pipeline.url}/v1/messages/count_tokens`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'policy', messages: [USER('word '.repeat(400))] }),
    })
    const { input_tokens: tokens } = (await count.json()) as { input_tokens: number }
    assert.ok(tokens > 400 && tokens < 600, String(tokens))
    await pipeline.stop()
    await assert.rejects(running('unnamed', `sglang+${server.url}/v1`, join(folder, 'model'), false), {
      code: 'bad_request',
      message: /needs INSTAR_MODEL/,
    })
  } finally {
    await server.kill()
  }
})
