/**
 * The results of heavy requests, read from the body of `retrieve_future`. Each length is held to the request: a server
 * may pad or cut. Throws InstarError `trainer_mismatch`.
 */
import { InstarError } from '@instar/events/errors'
import { isJsonObject, parseJsonObject, type JsonObject } from '@instar/events/json'
import type { Prepared, RequestKind, Results } from '../port.ts'
import { bfloat16Values, float32Values, int64Values } from './arrays.ts'
import { mapEntry, messageOf, ProtobufError, readFields, type Field } from './protobuf.ts'

const mismatch = (what: string, details: Record<string, unknown> = {}): InstarError =>
  new InstarError('trainer_mismatch', `The training server's result ${what}`, details)

/** Characters of a metric's name, and number of metrics, that are kept. */
const METRIC_NAME_CHARS = 100
const METRICS_MAX = 100

type Metrics = Readonly<Record<string, number>>
type LossOutput = Results['forward']

const finiteMetrics = (entries: readonly (readonly [string, unknown])[]): Metrics =>
  Object.fromEntries(
    entries
      .filter((entry): entry is [string, number] => Number.isFinite(entry[1]) && entry[0].length <= METRIC_NAME_CHARS)
      .slice(0, METRICS_MAX),
  )

/** Holds the log-probs of the rows to the lengths of the request. One that is not finite is the caller's: a step may diverge. */
const checked = (logprobs: readonly Float32Array[], lengths: readonly number[]): Float32Array[] => {
  if (logprobs.length !== lengths.length)
    throw mismatch(`has log-probs of ${logprobs.length} rows; ${lengths.length} were sent`)
  for (const [row, values] of logprobs.entries()) {
    if (values.length !== lengths[row])
      throw mismatch(`has ${values.length} log-probs for row ${row} of ${lengths[row]} targets`, { row })
    const odd = values.findIndex((value) => value > 1e-3 && value < Infinity)
    if (odd >= 0) throw mismatch(`has the log-prob ${values[odd]} in row ${row}`, { row })
  }
  return [...logprobs]
}

const DTYPE_FLOAT32 = 1
const DTYPE_BFLOAT16 = 4

/** BatchedTensor { data = 1; offsets = 2 (int64, in bytes, n + 1 of them); dtype = 3; trailing_shape = 4 }. */
const batchedRows = (tensor: Uint8Array): Float32Array[] => {
  const fields = readFields(tensor)
  const bytesOf = (number: number): Uint8Array => {
    const field = fields.findLast((one) => one.number === number)
    return field ? messageOf(field) : new Uint8Array()
  }
  const dtype = fields.findLast(({ number }) => number === 3)?.varint ?? 0
  if (dtype !== DTYPE_FLOAT32 && dtype !== DTYPE_BFLOAT16) throw mismatch(`has log-probs of dtype ${dtype}`)
  const width = dtype === DTYPE_FLOAT32 ? 4 : 2
  const data = bytesOf(1)
  const packed = bytesOf(2)
  if (packed.length % 8 !== 0) throw mismatch(`has ${packed.length} bytes of offsets`)
  const offsets = int64Values(packed)
  return offsets.slice(1).map((end, row) => {
    const begin = offsets[row] ?? 0
    if (begin < 0 || end < begin || end > data.length || begin % width !== 0 || end % width !== 0)
      throw mismatch(`has offsets ${begin} to ${end} in ${data.length} bytes of log-probs`, { row })
    const bytes = data.subarray(begin, end)
    return width === 4 ? float32Values(bytes) : bfloat16Values(bytes)
  })
}

const doubleOf = (field: Field): number => {
  const bytes = messageOf(field)
  return bytes.length === 8 ? new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true) : Number.NaN
}

/** ForwardBackwardOutput { type = 1; repeated ArrayRecord { tag = 1; map fields = 2; num_datums = 3 } = 2; map metrics = 3 }. */
const outputOfProtobuf = (bytes: Uint8Array, lengths: readonly number[]): LossOutput => {
  const fields = readFields(bytes)
  const rows = fields
    .filter(({ number }) => number === 2)
    .flatMap((record) =>
      readFields(messageOf(record))
        .filter(({ number }) => number === 2)
        .flatMap((field) => {
          const entry = mapEntry(field)
          return entry?.key === 'logprobs' ? batchedRows(messageOf(entry.value)) : []
        }),
    )
  const metrics = fields
    .filter(({ number }) => number === 3)
    .flatMap((field) => {
      const entry = mapEntry(field)
      return entry ? [[entry.key, doubleOf(entry.value)] as const] : []
    })
  return { logprobs: checked(rows, lengths), metrics: finiteMetrics(metrics) }
}

const metricsOf = (body: JsonObject): Metrics =>
  finiteMetrics(isJsonObject(body['metrics']) ? Object.entries(body['metrics']) : [])

const isArray = (value: unknown): value is readonly unknown[] => Array.isArray(value)

const outputOfJson = (body: JsonObject, lengths: readonly number[]): LossOutput => {
  const outputs = body['loss_fn_outputs']
  if (!isArray(outputs)) throw mismatch('has no `loss_fn_outputs`')
  const rows = outputs.map((output) => {
    const tensor = isJsonObject(output) ? output['logprobs'] : null
    const data = isJsonObject(tensor) ? tensor['data'] : null
    return isArray(data) ? Float32Array.from(data, (value) => (typeof value === 'number' ? value : Number.NaN)) : null
  })
  return {
    logprobs: checked(
      rows.filter((row) => row !== null),
      lengths,
    ),
    metrics: metricsOf(body),
  }
}

const pathOf = (body: JsonObject, fallback: string | null): string => {
  const path = body['path'] ?? fallback
  if (typeof path !== 'string' || path.length > 2000) throw mismatch('has no `path`')
  return path
}

/** Numbers that JSON does not have and Python's `json.dumps` writes; strings are matched to be passed over. */
const NO_NUMBERS = /"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g

const objectOf = (bytes: Uint8Array): JsonObject => {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  const body =
    parseJsonObject(text) ??
    parseJsonObject(text.replace(NO_NUMBERS, (found) => (found.startsWith('"') ? found : 'null')))
  if (!body) throw mismatch('is not a JSON object')
  return body
}

/** Names under which servers report the norm of the gradient: SkyRL; others. */
const GRAD_NORMS = ['skyrl.ai/grad_norm', 'grad_norm', 'grad_norm:mean', 'grad_norm:sum']

const gradNormOf = ({ metrics }: JsonObject): number | null => {
  const name = isJsonObject(metrics) && GRAD_NORMS.find((candidate) => metrics[candidate] !== undefined)
  if (!isJsonObject(metrics) || !name) return null
  const norm = metrics[name]
  return typeof norm === 'number' && Number.isFinite(norm) ? norm : Number.NaN
}

const READERS: { [K in RequestKind]: (request: Prepared<K>, bytes: Uint8Array, isProtobuf: boolean) => Results[K] } = {
  forward: lossOutput,
  forward_backward: lossOutput,
  optim_step: (_, bytes) => {
    const body = objectOf(bytes)
    return { gradNorm: gradNormOf(body), metrics: metricsOf(body) }
  },
  load_weights: (request, bytes) => ({ path: pathOf(objectOf(bytes), request.path) }),
  save_weights: (_, bytes) => ({ path: pathOf(objectOf(bytes), null) }),
  save_weights_for_sampler: (_, bytes) => ({ path: pathOf(objectOf(bytes), null) }),
}

function lossOutput(request: Prepared, bytes: Uint8Array, isProtobuf: boolean): LossOutput {
  return isProtobuf ? outputOfProtobuf(bytes, request.lengths) : outputOfJson(objectOf(bytes), request.lengths)
}

/** `contentType`: of the response. */
export const resultOf = <K extends RequestKind>(
  request: Prepared<K>,
  bytes: Uint8Array,
  contentType: string,
): Results[K] => {
  try {
    return READERS[request.kind](request, bytes, contentType.includes('protobuf'))
  } catch (error) {
    if (error instanceof ProtobufError) throw mismatch(`is no protobuf message: ${error.message}`)
    throw error
  }
}
