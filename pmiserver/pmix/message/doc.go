// Package message is what a PMIx client and its server say to each other (pmix-wire.md 3.3, 4
// and 6), as values: the handshake, the header of each message, a struct for each request with
// its parser in one table, and the answers.
//
//	client                              server
//	header, Handshake  ------------->   Handshake.Refusal
//	                   <-------------   AppendWelcome: status, index; after a refusal the end
//	Header, request    ------------->   Parse
//	                   <-------------   Header with the same tag, AppendStatus, AppendKnown ...
//
// Requests may be answered in any order, each once, and DEREGEVENTS never. A request that
// Parse has returned is made of parts of its message, and lives as long as that.
package message
