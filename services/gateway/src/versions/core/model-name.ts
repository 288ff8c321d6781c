/** Model names: the policy's name means its head, `policy@17` a pinned version. */

/** `policy` → the head (null), `policy@17` → 17; undefined for another name. */
export const versionOf = (model: string | null, policy: string): number | null | undefined => {
  if (model === null || model === policy) return null
  if (!model.startsWith(`${policy}@`)) return undefined
  const digits = model.slice(policy.length + 1)
  return /^\d{1,9}$/.test(digits) ? Number(digits) : undefined
}
