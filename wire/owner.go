package wire

// An Owner has the handlers of the messages that one part of a program owns. T is what handles them: each handler is a
// row, made by Handle while the program is initialized.
type Owner[T any] struct {
	handlers [256]func(T, Message)
}

// Handle adds the row of messages M.
func Handle[T any, M Message](o *Owner[T], handle func(T, M)) {
	o.handlers[NumberFor[M]()] = func(t T, m Message) { handle(t, m.(M)) }
}

// Owns reports whether there is a row for m.
func (o *Owner[T]) Owns(m Message) bool { return o.handlers[NumberOf(m)] != nil }

// Handle calls the handler of m, which must have a row.
func (o *Owner[T]) Handle(t T, m Message) { o.handlers[NumberOf(m)](t, m) }
