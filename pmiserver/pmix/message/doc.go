// Package message represents the messages between a PMIx client and its server as Go values (pmix-wire.md 3.3, 4
// and 6). It has types for the handshake and the header, a struct and a parser for each request, and functions
// that encode replies.
//
//	client                              server
//	header, Handshake  ------------->   Handshake.Refusal
//	                   <-------------   AppendWelcome: status, index; a refusal closes the connection
//	Header, request    ------------->   Parse
//	                   <-------------   Header with the same tag, AppendStatus, AppendKnown ...
//
// Each request gets one reply, in any order; DEREGEVENTS gets none. A request that
// Parse returns refers to the bytes of its message, which must not be changed while it is in use.
package message
