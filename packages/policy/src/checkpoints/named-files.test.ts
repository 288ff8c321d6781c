/** Files that the owner names, which are pipes or devices: refused at once, where reading would wait or never end. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openCheckpoint } from './folder.ts'
import { readPeftFolder } from './peft-folder.ts'

const TINY = fileURLToPath(new URL('../../../../models/tiny', import.meta.url))
const refused = (message: RegExp) => (error: unknown) =>
  (error as { code: string }).code === 'bad_checkpoint' && message.test((error as Error).message)

test('an adapter folder with a device, or a pipe', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-named-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const read = () => readPeftFolder(folder, { model: TINY, base: 'a'.repeat(64) })
  const [config, weights] = [join(folder, 'adapter_config.json'), join(folder, 'adapter_model.safetensors')]
  symlinkSync('/dev/zero', config)
  assert.throws(read, refused(/adapter_config\.json.*not a regular file/))
  rmSync(config)
  writeFileSync(config, '{"peft_type":"LORA","r":8,"lora_alpha":16}')
  execFileSync('mkfifo', [weights])
  assert.throws(read, refused(/adapter_model\.safetensors.*not a regular file/))
})

test('a model folder with a pipe', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-named-'))
  t.after(() => rmSync(folder, { recursive: true }))
  execFileSync('mkfifo', [join(folder, 'config.json')])
  assert.throws(() => openCheckpoint(folder), refused(/config\.json.*not a regular file/))
  rmSync(join(folder, 'config.json'))
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(TINY, name), join(folder, name))
  execFileSync('mkfifo', [join(folder, 'model.safetensors')])
  assert.throws(() => openCheckpoint(folder), refused(/model\.safetensors.*not a regular file/))
})
