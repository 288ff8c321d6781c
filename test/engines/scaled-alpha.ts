/** The weights of an adapter with another `lora_alpha` in their metadata. */
import { readSafetensorsWithMetadata, writeSafetensors } from '@instar/policy/checkpoints/safetensors'

export const scaledAlpha =
  (factor: number) =>
  (weights: Uint8Array): Uint8Array => {
    const { tensors, metadata } = readSafetensorsWithMetadata(weights)
    return writeSafetensors(
      tensors,
      new Map(
        [...metadata].map(([key, value]) => [key, key === 'lora_alpha' ? String(factor * Number(value)) : value]),
      ),
    )
  }
