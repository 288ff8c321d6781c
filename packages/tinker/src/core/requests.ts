/**
 * The bytes of every heavy request, as functions of their arguments: the same arguments give the same bytes in every
 * build that reads the same wire. Field names and numbers: SDK tinker 0.38.0 (protobuf) and 0.16.1 (JSON).
 */
import { InstarError } from '@instar/events/errors'
import { contentSha } from '@instar/events/ids'
import type { AdamParams, Prepared, RequestKind, ScoreRow, TrainRow, Wire } from '../port.ts'
import { float32Bytes, int32Bytes, int64Bytes } from './arrays.ts'
import { bytesField, join, stringField, uintField, uintsField } from './protobuf.ts'

export const PROTOBUF = 'application/x-protobuf'
export const JSON_TYPE = 'application/json'

/** Of a hosted server and its SDK, where the server states nothing else. */
export const DEFAULT_WIRE: Wire = { format: 'protobuf', rowsMax: 1024, bytesMax: 5_000_000, adapters: 'archive' }

/** A row's inputs. They are written in the order of their names, as deterministic serializers of protobuf do. */
type Inputs = { target_tokens: readonly number[]; [name: string]: readonly number[] }
type Datum = { tokens: readonly number[]; inputs: Inputs }

const FLOAT32 = 1
const INT64 = 2
/** Ids are sent as int32. */
const ID_MAX = 2 ** 31 - 1
/** Seqs are an int32 of the wire. */
const SEQ_MAX = 2 ** 31 - 1

const refuse = (message: string, details: Record<string, unknown>): InstarError =>
  new InstarError('bad_request', message, details)

const prepared = <K extends RequestKind>(
  request: Pick<Prepared<K>, 'kind' | 'model' | 'seq' | 'bytes' | 'contentType' | 'endpoint'> & Partial<Prepared<K>>,
): Prepared<K> => {
  if (!Number.isSafeInteger(request.seq) || request.seq < 1 || request.seq > SEQ_MAX)
    throw refuse(`seq ${request.seq} is not an integer from 1 to ${SEQ_MAX}`, { field: 'seq' })
  return { lengths: [], path: null, sha256: contentSha(request.bytes), ...request }
}

const jsonBytes = (body: Record<string, unknown>): Uint8Array => new TextEncoder().encode(JSON.stringify(body))

const checkRow = (row: ScoreRow & Partial<TrainRow>, index: number): void => {
  const length = row.tokens.length
  if (length < 1) throw refuse(`row ${index} has no tokens`, { row: index, field: 'tokens' })
  for (const field of ['targets', 'logprobs', 'advantages'] as const) {
    const values = row[field]
    if (values && values.length !== length)
      throw refuse(`row ${index} has ${length} tokens and ${values.length} ${field}`, { row: index, field })
  }
  for (const field of ['tokens', 'targets'] as const) {
    const wrong = row[field].find((id) => !Number.isInteger(id) || id < 0 || id > ID_MAX)
    if (wrong !== undefined) throw refuse(`row ${index}: ${wrong} in ${field} is not a token id`, { row: index, field })
  }
  for (const field of ['logprobs', 'advantages'] as const) {
    const wrong = row[field]?.find((value) => !Number.isFinite(Math.fround(value)))
    if (wrong !== undefined)
      throw refuse(`row ${index}: ${wrong} in ${field} is not a finite 32-bit number`, { row: index, field })
  }
}

const tensorBytes = (name: string, values: readonly number[]): Uint8Array => {
  const [dtype, dense] = name === 'target_tokens' ? [INT64, int64Bytes(values)] : [FLOAT32, float32Bytes(values)]
  return join([bytesField(1, dense), uintField(3, dtype), uintsField(4, [values.length])])
}

const sortedInputs = (inputs: Inputs): [string, readonly number[]][] =>
  Object.entries(inputs).sort(([a], [b]) => (a < b ? -1 : 1))

const datumBytes = ({ tokens, inputs }: Datum): Uint8Array =>
  join([
    bytesField(1, bytesField(1, bytesField(1, int32Bytes(tokens)))),
    ...sortedInputs(inputs).map(([name, values]) =>
      bytesField(2, join([stringField(1, name), bytesField(2, tensorBytes(name, values))])),
    ),
  ])

const datumJson = ({ tokens, inputs }: Datum): Record<string, unknown> => ({
  model_input: { chunks: [{ type: 'encoded_text', tokens }] },
  loss_fn_inputs: Object.fromEntries(
    sortedInputs(inputs).map(([name, values]) => [
      name,
      name === 'target_tokens'
        ? { data: values, dtype: 'int64', shape: [values.length] }
        : { data: values.map(Math.fround), dtype: 'float32', shape: [values.length] },
    ]),
  ),
})

/** Rows in order, each part within the wire's limits; a row that alone exceeds them is refused. */
const split = <T>(
  rows: readonly { size: number; content: T; length: number }[],
  wire: Wire,
): (typeof rows)[number][][] => {
  const parts: (typeof rows)[number][][] = []
  let bytes = Infinity
  for (const [index, row] of rows.entries()) {
    if (row.size > wire.bytesMax)
      throw refuse(`row ${index} has ${row.size} bytes; the server takes ${wire.bytesMax} at most`, { row: index })
    const part = parts.at(-1)
    if (!part || part.length >= wire.rowsMax || bytes + row.size > wire.bytesMax) {
      parts.push([row])
      bytes = row.size
    } else {
      part.push(row)
      bytes += row.size
    }
  }
  return parts
}

/** The longest text of a 32-bit number in JSON. */
const LONGEST = -1.1754943508222875e-38

/**
 * Whether requests with the row, whatever its log-probs and advantages are, stay within the wire's limit. `trained`: false
 * for a row of forward passes alone.
 */
export const rowFits = (wire: Wire, { tokens, targets }: ScoreRow, trained: boolean): boolean => {
  const longest = targets.map(() => LONGEST)
  const inputs: Inputs = trained
    ? { target_tokens: targets, logprobs: longest, advantages: longest }
    : { target_tokens: targets, weights: targets.map(() => 1) }
  return datumSize(wire, { tokens, inputs }) <= wire.bytesMax
}

const datumSize = (wire: Wire, row: Datum): number =>
  wire.format === 'protobuf' ? bytesField(3, datumBytes(row)).length : Buffer.byteLength(JSON.stringify(datumJson(row)))

type Loss = { name: string; forwardOnly: boolean }

/** The requests of one pass over the rows, with seqs from `seq` on. */
export const lossRequests = <K extends 'forward' | 'forward_backward'>(
  wire: Wire,
  kind: K,
  model: string,
  seq: number,
  loss: string,
  rows: readonly Datum[],
): Prepared<K>[] => {
  if (rows.length === 0) throw refuse('a request without rows', { field: 'rows' })
  const named: Loss = { name: loss, forwardOnly: kind === 'forward' }
  if (wire.format === 'protobuf') {
    const encoded = rows.map((row) => {
      const content = bytesField(3, datumBytes(row))
      return { size: content.length, content, length: row.inputs.target_tokens.length }
    })
    return split(encoded, wire).map((part, index) =>
      prepared<K>({
        kind,
        model,
        seq: seq + index,
        contentType: PROTOBUF,
        endpoint: '/api/v1/forward_backward',
        lengths: part.map(({ length }) => length),
        bytes: join([
          stringField(1, model),
          uintField(2, seq + index),
          ...part.map(({ content }) => content),
          stringField(4, named.name),
          ...(named.forwardOnly ? [uintField(6, 1)] : []),
        ]),
      }),
    )
  }
  const encoded = rows.map((row) => {
    const content = datumJson(row)
    return { size: Buffer.byteLength(JSON.stringify(content)), content, length: row.inputs.target_tokens.length }
  })
  return split(encoded, wire).map((part, index) =>
    prepared<K>({
      kind,
      model,
      seq: seq + index,
      contentType: JSON_TYPE,
      endpoint: `/api/v1/${kind}`,
      lengths: part.map(({ length }) => length),
      bytes: jsonBytes({
        model_id: model,
        seq_id: seq + index,
        [named.forwardOnly ? 'forward_input' : 'forward_backward_input']: {
          data: part.map(({ content }) => content),
          loss_fn: named.name,
        },
      }),
    }),
  )
}

/** Weights of 1: the log-probs do not depend on them. */
export const forwardRequests = (
  wire: Wire,
  model: string,
  seq: number,
  rows: readonly ScoreRow[],
): Prepared<'forward'>[] => {
  rows.forEach(checkRow)
  const data = rows.map(({ tokens, targets }) => ({
    tokens,
    inputs: { target_tokens: targets, weights: targets.map(() => 1) },
  }))
  return lossRequests(wire, 'forward', model, seq, 'cross_entropy', data)
}

export const forwardBackwardRequests = (
  wire: Wire,
  model: string,
  seq: number,
  rows: readonly TrainRow[],
): Prepared<'forward_backward'>[] => {
  rows.forEach(checkRow)
  const data = rows.map(({ tokens, targets, logprobs, advantages }) => ({
    tokens,
    inputs: { target_tokens: targets, logprobs, advantages },
  }))
  return lossRequests(wire, 'forward_backward', model, seq, 'importance_sampling', data)
}

export const optimStepRequest = (model: string, seq: number, params: AdamParams): Prepared<'optim_step'> => {
  const wrong = Object.entries(params).find(([, value]) => !Number.isFinite(value) || value < 0)
  if (wrong) throw refuse(`${wrong[0]} ${wrong[1]} is not a number from 0 on`, { field: wrong[0] })
  return prepared({
    kind: 'optim_step',
    model,
    seq,
    contentType: JSON_TYPE,
    endpoint: '/api/v1/optim_step',
    bytes: jsonBytes({
      adam_params: {
        learning_rate: params.learningRate,
        beta1: params.beta1,
        beta2: params.beta2,
        eps: params.epsilon,
        weight_decay: params.weightDecay,
        grad_clip_norm: params.gradClipNorm,
      },
      model_id: model,
      seq_id: seq,
      type: 'optim_step',
    }),
  })
}

export const loadRequest = (
  model: string,
  seq: number,
  path: string,
  { optimizer }: { optimizer: boolean },
): Prepared<'load_weights'> => {
  if (!path.startsWith('tinker://')) throw refuse(`${path} is not an address tinker://…`, { field: 'path' })
  return prepared({
    kind: 'load_weights',
    model,
    seq,
    path,
    contentType: JSON_TYPE,
    endpoint: '/api/v1/load_weights',
    bytes: jsonBytes({ model_id: model, seq_id: seq, path, optimizer, type: 'load_weights' }),
  })
}

const NAME = /^[A-Za-z0-9_-]{1,255}$/

/** `ttlSeconds`: the hosted service takes 3600 (one hour) to ten years. */
export const saveRequest = <K extends 'save_weights' | 'save_weights_for_sampler'>(
  wire: Wire,
  kind: K,
  model: string,
  seq: number,
  name: string,
  ttlSeconds: number | null,
): Prepared<K> => {
  if (!NAME.test(name)) throw refuse(`${name} is not 1 to 255 of A–Z, a–z, 0–9, _ and -`, { field: 'name' })
  const type = kind === 'save_weights' || wire.adapters === 'archive' ? kind : 'save_weights_external'
  return prepared({
    kind,
    model,
    seq,
    path: name,
    contentType: JSON_TYPE,
    endpoint: `/api/v1/${type}`,
    bytes: jsonBytes({
      model_id: model,
      path: name,
      seq_id: seq,
      ...(ttlSeconds === null ? {} : { ttl_seconds: ttlSeconds }),
      type,
    }),
  })
}
