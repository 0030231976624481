"""Operations that change the graph itself: one file each, registered under the name that recipes write."""
