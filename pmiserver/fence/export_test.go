package fence

// OpenAndHeld is how many fences are kept, and about how many bytes they take.
func (h *Coordinator) OpenAndHeld() (open, held int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open), h.heldBytes
}
