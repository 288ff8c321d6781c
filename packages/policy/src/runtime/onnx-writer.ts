/** Serialises an ONNX model as protobuf. Field numbers are those of onnx.proto3 (IR version 9). */

export type OnnxType = 'float32' | 'uint8' | 'int32' | 'int64' | 'bool'
const TYPE_CODE: Record<OnnxType, number> = { float32: 1, uint8: 2, int32: 6, int64: 7, bool: 9 }

/** A branch of an If node. It has no inputs; its nodes may use every value of the enclosing graph. */
export type OnnxBranch = { name: string; nodes: readonly OnnxNode[]; output: OnnxValue }

/** A plain number is an integer attribute (`i`, `ints`); a float attribute is given as `{ float }`. */
export type Attribute = number | string | readonly number[] | { float: number } | { branch: OnnxBranch }

export type OnnxNode = {
  op: string
  domain: string
  inputs: readonly string[]
  outputs: readonly string[]
  attributes: Readonly<Record<string, Attribute>>
}
export type OnnxValue = { name: string; type: OnnxType; shape: readonly (number | string)[] }
/** `external`: the file and offset of the bytes, if they are stored outside the model. */
export type OnnxInitializer = {
  name: string
  type: OnnxType
  shape: readonly number[]
  bytes: Uint8Array
  external?: { file: string; offset: number }
}
export type OnnxGraph = {
  name: string
  nodes: readonly OnnxNode[]
  inputs: readonly OnnxValue[]
  outputs: readonly OnnxValue[]
  initializers: readonly OnnxInitializer[]
}

/** A protobuf message under construction; its pieces are copied once, by `finish`. */
class ProtobufMessage {
  readonly pieces: Uint8Array[] = []
  length = 0

  private push(piece: Uint8Array): void {
    this.pieces.push(piece)
    this.length += piece.length
  }

  private varint(value: number | bigint): void {
    let rest = BigInt.asUintN(64, BigInt(value))
    const bytes: number[] = []
    do {
      const low = Number(rest & 0x7fn)
      rest >>= 7n
      bytes.push(rest === 0n ? low : low | 0x80)
    } while (rest !== 0n)
    this.push(Uint8Array.from(bytes))
  }

  integer(field: number, value: number | bigint): this {
    this.varint(field << 3)
    this.varint(value)
    return this
  }

  float(field: number, value: number): this {
    this.varint((field << 3) | 5)
    this.push(new Uint8Array(Float32Array.of(value).buffer))
    return this
  }

  bytes(field: number, value: Uint8Array): this {
    this.varint((field << 3) | 2)
    this.varint(value.length)
    this.push(value)
    return this
  }

  text(field: number, value: string): this {
    return this.bytes(field, new TextEncoder().encode(value))
  }

  message(field: number, value: ProtobufMessage): this {
    this.varint((field << 3) | 2)
    this.varint(value.length)
    for (const piece of value.pieces) this.push(piece)
    return this
  }

  finish(): Uint8Array {
    const out = new Uint8Array(this.length)
    let at = 0
    for (const piece of this.pieces) {
      out.set(piece, at)
      at += piece.length
    }
    return out
  }
}

function attribute(name: string, value: Attribute): ProtobufMessage {
  const out = new ProtobufMessage().text(1, name)
  if (typeof value === 'number') return out.integer(3, value).integer(20, 2)
  if (typeof value === 'string') return out.text(4, value).integer(20, 3)
  if ('branch' in value) return out.message(6, branch(value.branch)).integer(20, 5)
  if ('float' in value) return out.float(2, value.float).integer(20, 1)
  for (const item of value) out.integer(8, item)
  return out.integer(20, 7)
}

function node(value: OnnxNode): ProtobufMessage {
  const out = new ProtobufMessage()
  for (const input of value.inputs) out.text(1, input)
  for (const output of value.outputs) out.text(2, output)
  out.text(4, value.op)
  for (const [name, item] of Object.entries(value.attributes)) out.message(5, attribute(name, item))
  if (value.domain !== '') out.text(7, value.domain)
  return out
}

function valueInfo(value: OnnxValue): ProtobufMessage {
  const shape = new ProtobufMessage()
  for (const size of value.shape)
    shape.message(
      1,
      typeof size === 'number' ? new ProtobufMessage().integer(1, size) : new ProtobufMessage().text(2, size),
    )
  const tensor = new ProtobufMessage().integer(1, TYPE_CODE[value.type]).message(2, shape)
  return new ProtobufMessage().text(1, value.name).message(2, new ProtobufMessage().message(1, tensor))
}

function branch(value: OnnxBranch): ProtobufMessage {
  const out = new ProtobufMessage()
  for (const item of value.nodes) out.message(1, node(item))
  return out.text(2, value.name).message(12, valueInfo(value.output))
}

function initializer(value: OnnxInitializer): ProtobufMessage {
  const out = new ProtobufMessage()
  for (const size of value.shape) out.integer(1, size)
  out.integer(2, TYPE_CODE[value.type]).text(8, value.name)
  if (!value.external) return out.bytes(9, value.bytes)
  const entry = (key: string, text: string): ProtobufMessage => new ProtobufMessage().text(1, key).text(2, text)
  out.message(13, entry('location', value.external.file))
  out.message(13, entry('offset', String(value.external.offset)))
  out.message(13, entry('length', String(value.bytes.length)))
  return out.integer(14, 1)
}

/** A serialised ModelProto with opset 18 of the default domain and version 1 of onnxruntime's domain com.microsoft. */
export function writeOnnx(graph: OnnxGraph): Uint8Array {
  const body = new ProtobufMessage()
  for (const item of graph.nodes) body.message(1, node(item))
  body.text(2, graph.name)
  for (const item of graph.initializers) body.message(5, initializer(item))
  for (const item of graph.inputs) body.message(11, valueInfo(item))
  for (const item of graph.outputs) body.message(12, valueInfo(item))
  return new ProtobufMessage()
    .integer(1, 9)
    .text(2, 'instar')
    .message(7, body)
    .message(8, new ProtobufMessage().text(1, '').integer(2, 18))
    .message(8, new ProtobufMessage().text(1, 'com.microsoft').integer(2, 1))
    .finish()
}
