"""What should run, who said so, and what has happened: tables, migrations, and how they are used."""
