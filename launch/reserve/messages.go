package reserve

import "remshell/wire"

// ownedMessages contains, for each message number, whether a reservation handles such messages. Features add message
// types with Own.
var ownedMessages = func() (set [256]bool) {
	for _, number := range []byte{
		wire.NumberFor[*wire.MarkWritten](), wire.NumberFor[*wire.MarksRead](), wire.NumberFor[*wire.Surveyed](),
		wire.NumberFor[*wire.Prepared](), wire.NumberFor[*wire.Refused](), wire.NumberFor[*wire.ClaimConflict](),
	} {
		set[number] = true
	}
	return set
}()

// Owns reports whether reservations handle messages of the same type as m.
func Owns(m wire.Message) bool { return ownedMessages[wire.NumberOf(m)] }

// Own declares that a feature handles messages of type M while it prepares nodes. The feature passes the handler
// to Handle. Own is called during program initialization.
func Own[M wire.Message]() { ownedMessages[wire.NumberFor[M]()] = true }
