package reserve

import "remshell/wire"

// owned has, by number, the kinds of messages that only reservations handle. Features add their own kinds
// with Own.
var owned = func() (set [256]bool) {
	for _, number := range []byte{
		wire.NumberFor[*wire.MarkWritten](), wire.NumberFor[*wire.MarksRead](), wire.NumberFor[*wire.Surveyed](),
		wire.NumberFor[*wire.Prepared](), wire.NumberFor[*wire.Refused](), wire.NumberFor[*wire.ClaimConflict](),
	} {
		set[number] = true
	}
	return set
}()

// Owns reports whether reservations handle this kind of message. While a job runs, a spawn or a move has
// a reservation.
func Owns(m wire.Message) bool { return owned[wire.NumberOf(m)] }

// Own declares that messages of type M are handled in a feature's Prepare, by Handle. It is called while
// the program is initialized.
func Own[M wire.Message]() { owned[wire.NumberFor[M]()] = true }
