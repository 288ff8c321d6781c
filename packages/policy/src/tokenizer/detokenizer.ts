/**
 * Streaming detokenisation of one completion: emits whole characters, in total the same text as `decode` of all ids.
 */
import type { TextTokenizer } from './tokenizer.ts'

export class Detokenizer {
  private readonly tokenizer: Pick<TextTokenizer, 'bytesOf'>
  // Buffers the bytes of an incomplete character; invalid bytes become U+FFFD immediately.
  private readonly decoder = new TextDecoder('utf-8', { ignoreBOM: true })

  constructor(tokenizer: Pick<TextTokenizer, 'bytesOf'>) {
    this.tokenizer = tokenizer
  }

  push(id: number): string {
    return this.decoder.decode(this.tokenizer.bytesOf(id), { stream: true })
  }

  /** The rest of the text; an incomplete character becomes U+FFFD. */
  end(): string {
    return this.decoder.decode()
  }
}
