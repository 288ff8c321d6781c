/** Pseudo-random capital letters, like the payload of Kafka's ProducerPerformance. */
export const randomText = (bytes: number): Buffer =>
  Buffer.from(Array.from({ length: bytes }, (_, i) => 65 + ((i * 7919 + (i >> 3) * 104729) % 26)))
