/** Answers from a vLLM server, updates on a training server: this machine has the tokenizer alone, and loads no weights. */
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openModel, openTokenizer } from '@instar/policy'
import { onDemand } from '@instar/publisher'
import { ROOT } from '../../tools/tree.ts'
import { up } from '../kit/up.ts'
import { ScriptedTinker } from './scripted-tinker.ts'
import { ScriptedVllm } from './scripted-vllm.ts'

const folder = mkdtempSync(join(tmpdir(), 'instar-all-remote-'))
const target = join(folder, 'model')
cpSync(join(ROOT, 'models/tiny'), target, {
  recursive: true,
  filter: (name) => !/model\.safetensors$|recipe/.test(name),
})
const tinker = await new ScriptedTinker().start()
const vllm = await new ScriptedVllm(await openTokenizer(target), { say: () => 'Yes.' }).start()
after(async () => {
  await Promise.all([tinker.kill(), vllm.kill()])
  rmSync(folder, { recursive: true, force: true })
})

/** Resident memory of a process in MB, where the system tells it. */
const residentMb = (pid: number): number | null => {
  const status = `/proc/${pid}/status`
  const kb = existsSync(status) ? /VmRSS:\s+(\d+)/.exec(readFileSync(status, 'utf8'))?.[1] : undefined
  return kb === undefined ? null : Math.round(Number(kb) / 1000)
}

test('a line starts on a folder without weights, and takes turns to learn from', { timeout: 120_000 }, async (t) => {
  await assert.rejects(openModel(target), { code: 'bad_checkpoint' })
  process.env['INSTAR_MODEL'] = target
  process.env['INSTAR_ENGINE'] = `vllm+${vllm.url}`
  process.env['INSTAR_TRAINER'] = `tinker+${tinker.url}`
  const { child, ready, ended, err } = await up(join(folder, 'data'))
  const started = Promise.withResolvers<void>()
  const look = (): void => {
    if (err().includes('the gate has 0 probes')) started.resolve()
  }
  child.stderr!.on('data', look)
  look()
  await Promise.race([started.promise, ended.then(() => assert.fail(err()))])
  assert.doesNotMatch(err(), /captured only/)
  const answer = await fetch(`${ready.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'policy', messages: [{ role: 'user', content: 'Hello' }] }),
  })
  assert.equal(answer.status, 200)
  await answer.text()
  const metrics = await (await fetch(`${ready.url}/metrics`)).text()
  assert.match(metrics, /^instar_turns_total\{(?=[^}]*trainable="yes")[^}]*\} 1$/m)
  t.diagnostic(`resident memory of the process: ${residentMb(child.pid!)} MB`)
  child.kill('SIGTERM')
  await ended
})

test('an engine on demand is started once, when it is needed, and again after a failure', async () => {
  let [starts, closed] = [0, 0]
  const engine = onDemand(() => {
    starts += 1
    return starts === 1 ? Promise.reject(new Error('busy')) : Promise.resolve({ close: async () => void (closed += 1) })
  })
  await engine.close()
  assert.equal(starts, 0)
  await assert.rejects(engine.get(), /busy/)
  assert.equal(await engine.get(), await engine.get())
  assert.equal(starts, 2)
  await engine.close()
  assert.equal(closed, 1)
})
