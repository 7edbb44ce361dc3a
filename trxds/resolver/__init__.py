"""Floor 3: many resources become one consistent picture, and the picture becomes routes and a tree."""
