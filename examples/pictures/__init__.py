"""The pictures of docs/pictures, drawn with the parts that they show."""
