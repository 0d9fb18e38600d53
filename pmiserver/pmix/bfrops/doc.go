// Package bfrops encodes and decodes PMIx messages in the encoding that Open PMIx calls bfrops v3 (pmix-wire.md 5). It
// uses the non-described form, in which messages do not contain the types of their elements. All numbers are big-endian
// and nothing is aligned. A message is a sequence of packs, and a pack holds a number of elements of one type:
//
//	pack    = count:int32 element*count
//	element = the encoding of a type, see elementSizes
//
// Fields inside an element have no count. A Reader decodes a message pack by pack; the Append functions encode packs.
// The package does not know the meaning of messages, and performs no I/O.
package bfrops
