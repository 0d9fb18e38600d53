package reserve

import "remshell/wire"

// owned contains, by its number, each kind of message that reservations handle and the core does not. Features add
// their own kinds with Own.
var owned = func() (set [256]bool) {
	for _, number := range []byte{
		wire.NumberFor[*wire.MarkWritten](), wire.NumberFor[*wire.MarksRead](), wire.NumberFor[*wire.Surveyed](),
		wire.NumberFor[*wire.Prepared](), wire.NumberFor[*wire.Refused](), wire.NumberFor[*wire.ClaimConflict](),
	} {
		set[number] = true
	}
	return set
}()

// Owns reports whether messages of this kind are handled by reservations. A running job needs reservations
// for spawns and moves.
func Owns(m wire.Message) bool { return owned[wire.NumberOf(m)] }

// Own declares that a feature handles messages of type M while it prepares nodes, with the function that it passes to
// Handle. Own is called during program initialization.
func Own[M wire.Message]() { owned[wire.NumberFor[M]()] = true }
