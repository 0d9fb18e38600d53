// Package bfrops encodes and decodes PMIx messages: bfrops v3, non-described (pmix-wire.md 5).
// All numbers are big-endian and nothing is aligned. A message is a sequence of packs, and a
// pack holds a number of elements of one type:
//
//	pack    = count:int32 element*count
//	element = the encoding of a type, see elementSizes
//
// Fields inside an element have no count. A Reader decodes a message pack by pack; the Append functions encode packs.
// The package does not know the meaning of messages, and performs no I/O.
package bfrops
