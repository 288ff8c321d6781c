/**
 * Adapters of SGLang 0.5.23: by their folder with `/load_lora_adapter`, or, where the server does not see the folder, as
 * tensors with `/load_lora_adapter_from_tensors`. The folder comes first: an adapter that the server evicts
 * (`--max-loaded-loras`) it reads again from the folder, while one from tensors is gone; and its scheduler ends when it
 * cannot decode tensors.
 */
import { isJsonObject } from '@instar/events/json'
import { listedAdapters, numberOr, type JsonClient, type Protocol } from './wire.ts'
import { torchPickle } from './torch-pickle.ts'

type Adapters = NonNullable<Protocol['adapter']>
type Load = Parameters<Adapters['load']>[1]

const BY_PATH = '/load_lora_adapter'
const FROM_TENSORS = '/load_lora_adapter_from_tensors'
/** Of the encoded tensors of a request: it is one string in memory, and one in the server's. */
export const MAX_ENCODED_BYTES = 256 * 1024 * 1024

/** Null if the server has loaded it; else its words. */
const refusalOf = (path: string, { status, text }: { status: number; text: string }): string | null =>
  status === 200 || /already (loaded|exists)/i.test(text) ? null : `${path} returned ${status}: ${text.slice(0, 300)}`

/**
 * Null if the server has loaded it; else the reason. A request without fields loads nothing, and its refusal names the
 * fields: releases before 0.5.23 had another one, others do not have the path.
 */
const loadTensors = async (client: JsonClient, { name, files }: Load): Promise<string | null> => {
  const asked = await client.post(FROM_TENSORS, {})
  if (!asked.text.includes('serialized_named_tensors')) return 'it takes no serialized_named_tensors'
  const { config, weights } = await files()
  // Each process of a tensor-parallel server decodes its own copy.
  const copies = numberOr((await client.get('/server_info'))?.['tp_size'], 1)
  const encoded = torchPickle(weights).toString('base64')
  const size = encoded.length * copies
  if (size > MAX_ENCODED_BYTES)
    return `its tensors are ${size} bytes for ${copies} processes, above the limit of ${MAX_ENCODED_BYTES}`
  const config_dict: unknown = JSON.parse(new TextDecoder().decode(config))
  if (!isJsonObject(config_dict)) return 'adapter_config.json is not an object'
  return refusalOf(
    FROM_TENSORS,
    await client.post(FROM_TENSORS, {
      lora_name: name,
      config_dict,
      serialized_named_tensors: Array.from({ length: copies }, () => encoded),
    }),
  )
}

export const sglangAdapters: Adapters = {
  async load(client, adapter) {
    const byPath = refusalOf(
      BY_PATH,
      await client.post(BY_PATH, { lora_name: adapter.name, lora_path: adapter.folder }),
    )
    if (byPath === null) return adapter.name
    const fromTensors = await loadTensors(client, adapter)
    if (fromTensors === null) return adapter.name
    throw new Error(`${byPath}; from tensors: ${fromTensors}`)
  },
  async unload(client, name) {
    await client.post('/unload_lora_adapter', { lora_name: name })
  },
  list: listedAdapters,
}

/**
 * A name that it never had (0.5.23; earlier releases: not loaded, does not exist), or one that it evicted and does not
 * find any more, as is always so with an adapter from tensors.
 */
export const adapterUnknown = (body: string): boolean =>
  /LoRA adapters? (is|are) not loaded|LoRA with name .* does not exist|LoRA adapter that has never been loaded/i.test(
    body,
  ) || /Failed to implicitly load LoRA adapter/i.test(body)
