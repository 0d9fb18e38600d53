package reserve

import "remshell/wire"

// owned has the kinds of messages of helpers that only a reservation handles, by number. Features add theirs (Own).
var owned = func() (set [256]bool) {
	for _, number := range []byte{
		wire.NumberFor[*wire.MarkWritten](), wire.NumberFor[*wire.MarksRead](), wire.NumberFor[*wire.Surveyed](),
		wire.NumberFor[*wire.Prepared](), wire.NumberFor[*wire.Refused](), wire.NumberFor[*wire.ClaimConflict](),
	} {
		set[number] = true
	}
	return set
}()

// Owns reports whether a message belongs to a reservation, including that of a spawn or a move while the job runs.
func Owns(m wire.Message) bool { return owned[wire.NumberOf(m)] }

// Own adds messages M of helpers, which a feature handles in its Prepare (Handle). It is called while the program
// is initialized.
func Own[M wire.Message]() { owned[wire.NumberFor[M]()] = true }
